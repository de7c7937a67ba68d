/* One row a codec, in the order that tables show them: codec_<name>.c defines
 * `const struct sonde_codec sonde_codec_<name>`. */
SONDE_CODEC(none)
SONDE_CODEC(lz4)
SONDE_CODEC(lz4hc)
SONDE_CODEC(snappy)
SONDE_CODEC(zstd)
SONDE_CODEC(deflate)
SONDE_CODEC(gzip)
SONDE_CODEC(libdeflate)
SONDE_CODEC(brotli)
