// Requests the vectors of sentences from a model server, over gRPC.
//
//     npm install
//     python descriptors.py tensorflow_serving.bin
//     node embed.js localhost:8500 'The bank of the river' 'I like it'
//
// Prints one JSON line per sentence: its vector and the vectors of its tokens.

import { readFileSync } from "node:fs";
import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";

const protos = grpc.loadPackageDefinition(
  protoLoader.loadFileDescriptorSetFromBuffer(
    readFileSync(new URL("tensorflow_serving.bin", import.meta.url)),
    { keepCase: true, longs: Number, enums: String, defaults: true },
  ),
);

const [address, ...sentences] = process.argv.slice(2);
const { PredictionService } = protos.tensorflow.serving;
const client = new PredictionService(address, grpc.credentials.createInsecure(), {
  "grpc.max_receive_message_length": -1, // no limit; the default, 4 MiB, fits 1024 tokens of 1024 numbers
});

const strings = {
  dtype: "DT_STRING",
  tensor_shape: { dim: [{ size: sentences.length }] },
  string_val: sentences.map((sentence) => Buffer.from(sentence)), // UTF-8
};
const request = {
  model_spec: { name: "elmo" },
  inputs: [{ key: "strings", value: strings }], // descriptors represent maps as lists of entries
  output_filter: ["elmo", "default", "sequence_len"],
};

client.predict(request, { deadline: Date.now() + 60_000 }, (error, response) => {
  client.close();
  if (error) {
    console.error(error.message);
    process.exitCode = 1;
    return;
  }
  const outputs = Object.fromEntries(response.outputs.map(({ key, value }) => [key, value]));
  const [tokens, sentence] = [nested(outputs.elmo), nested(outputs.default)];
  outputs.sequence_len.int_val.forEach((length, i) => {
    // Sentences are padded to the longest.
    console.log(JSON.stringify({ default: sentence[i], elmo: tokens[i].slice(0, length) }));
  });
});

// Converts the flat values of a tensor to nested lists.
function nested({ float_val, tensor_shape }, axis = 0) {
  if (axis === tensor_shape.dim.length - 1) return float_val;
  const { size } = tensor_shape.dim[axis];
  const width = float_val.length / size;
  return Array.from({ length: size }, (_, i) =>
    nested({ float_val: float_val.slice(i * width, (i + 1) * width), tensor_shape }, axis + 1),
  );
}
