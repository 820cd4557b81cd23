"""Where ELMo goes into a task model."""

# And in how many places that is.
PLACEMENTS = {"input": 1, "output": 1, "both": 2, "none": 0}
