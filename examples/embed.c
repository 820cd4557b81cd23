/* Embeds one sentence with an exported model, using only TensorFlow's C library.

   Input: the number of tokens, the number of character ids per token, then all ids. Output: the
   vectors. `saved_model_cli show --dir MODEL --all` prints the tensor names of the signatures.

   D=$(python -c "import tensorflow as tf; print(tf.__path__[0])")
   gcc examples/embed.c -I$D/include -L$D -l:libtensorflow_cc.so.2 -l:libtensorflow_framework.so.2 \
     -Wl,-rpath,$D -o embed
   ./embed exported/1 char_ids_char_ids StatefulPartitionedCall 2 < ids.txt */

#include <stdio.h>
#include <stdlib.h>
#include <tensorflow/c/c_api.h>

int main(int argc, char** argv) {
  if (argc != 5) return fprintf(stderr, "embed MODEL INPUT OUTPUT INDEX < ids\n"), 2;
  const char* tags[] = {"serve"};
  TF_Status* status = TF_NewStatus();
  TF_Graph* graph = TF_NewGraph();
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_Session* session =
      TF_LoadSessionFromSavedModel(options, NULL, argv[1], tags, 1, graph, NULL, status);
  if (TF_GetCode(status)) return fprintf(stderr, "%s\n", TF_Message(status)), 1;

  long long shape[3] = {1, 0, 0}; /* batch, token, char */
  if (scanf("%lld %lld", &shape[1], &shape[2]) != 2) return fprintf(stderr, "No ids.\n"), 1;
  size_t count = shape[1] * shape[2];
  TF_Tensor* ids = TF_AllocateTensor(TF_INT32, (int64_t*)shape, 3, count * sizeof(int));
  for (size_t i = 0; i < count; i++)
    if (scanf("%d", (int*)TF_TensorData(ids) + i) != 1) return fprintf(stderr, "No ids.\n"), 1;

  TF_Output input = {TF_GraphOperationByName(graph, argv[2]), 0};
  TF_Output output = {TF_GraphOperationByName(graph, argv[3]), atoi(argv[4])};
  if (!input.oper || !output.oper) return fprintf(stderr, "The model has no such tensor.\n"), 1;
  TF_Tensor* vectors = NULL;
  TF_SessionRun(session, NULL, &input, &ids, 1, &output, &vectors, 1, NULL, 0, NULL, status);
  if (TF_GetCode(status)) return fprintf(stderr, "%s\n", TF_Message(status)), 1;
  for (int64_t i = 0; i < TF_TensorElementCount(vectors); i++)
    printf("%.9g\n", ((float*)TF_TensorData(vectors))[i]);
  return 0;
}
