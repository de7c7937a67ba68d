/* In the order of the help: serve run bench make_model quantize tokenize. */
COMMAND(serve)
COMMAND(run)
COMMAND(bench)
COMMAND(make_model)
COMMAND(quantize)
COMMAND(tokenize)
