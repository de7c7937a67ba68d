/* In the order of the help: serve run bench make_model quantize tokenize. */
COMMAND(make_model)
