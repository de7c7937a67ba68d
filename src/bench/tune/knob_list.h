/* One row a knob that servers are known to have:
 *   name, options that set it (the first that the server knows is used; '+' joins two that are set
 *   alike), levels to try if none are given, whether it is tried unasked, what to know about it.
 * Levels: "cpus" 1, 2, 4 … as many as there are CPUs; "slots" 1, 2, 4 … the concurrency of the
 * load; "flag" on and off, for options without a value; else what stands there, as far as the
 * server allows it. */
SONDE_TUNE_KNOB("threads", "--threads", "cpus", 1, "")
SONDE_TUNE_KNOB("threads-batch", "--threads-batch", "cpus", 1, "")
SONDE_TUNE_KNOB("batch", "--batch-size|--batch", "128,512,2048", 1, "")
SONDE_TUNE_KNOB("ubatch", "--ubatch-size", "64,128,512", 1, "")
SONDE_TUNE_KNOB("slots", "--parallel|--slots", "slots", 1, "")
SONDE_TUNE_KNOB("fa", "--flash-attn", "on,off", 1, "")
SONDE_TUNE_KNOB("mmap", "--load-mode|--mmap|--no-mmap", "mmap,none", 1, "")
SONDE_TUNE_KNOB("kv", "--cache-type-k+--cache-type-v", "f16,q8_0", 0,
                "a smaller type changes answers a little")
SONDE_TUNE_KNOB("pin", "", "pin", 1, "")
