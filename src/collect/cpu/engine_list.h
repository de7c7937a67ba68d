/* Engines of cpu.h, the preferred one first. */
SONDE_CPU_ENGINE(perf)
SONDE_CPU_ENGINE(timer)
SONDE_CPU_ENGINE(mixed)
