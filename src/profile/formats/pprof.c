/* pprof.c - gzipped profile.proto, as `go tool pprof` and others read and write it.
 *
 * A profile is written as one kind of samples, or as all kinds of memory samples in one
 * (pprof-heap), summed by stack, thread and innermost span, which become labels. Times of single
 * samples and the spans themselves are not in the format. */
#include "profile/formats/pprof.h"

#include "base/gz.h"
#include "base/pb_read.h"

const struct pprof_kind sonde_pprof_kinds[SONDE_SAMPLE_KIND_COUNT] = {
    [SONDE_SAMPLE_CPU] = { "samples", "cpu", "nanoseconds" },
    [SONDE_SAMPLE_OFFCPU] = { "samples", "off-cpu", "nanoseconds" },
    [SONDE_SAMPLE_LIVE] = { "inuse_objects", "inuse_space", "bytes" },
    [SONDE_SAMPLE_PEAK] = { "peak_objects", "peak_space", "bytes" },
    [SONDE_SAMPLE_LEAKED] = { "leaked_objects", "leaked_space", "bytes" },
    [SONDE_SAMPLE_ALLOC] = { "alloc_objects", "alloc_space", "bytes" },
    [SONDE_SAMPLE_TEMPORARY] = { "temporary_objects", "temporary_space", "bytes" },
    [SONDE_SAMPLE_OTHER] = { "samples", "weight", "count" },
    [SONDE_SAMPLE_WALL] = { "samples", "wall", "nanoseconds" },
    [SONDE_SAMPLE_RUNNABLE] = { "samples", "runnable", "nanoseconds" },
    [SONDE_SAMPLE_GPU] = { "commands", "gpu", "nanoseconds" },
    [SONDE_SAMPLE_GPU_WAIT] = { "waits", "gpu-wait", "nanoseconds" },
};

/* Plain protobuf has no magic number: all of its fields must be those of a profile. */
static int looks_like_profile(const char *data, size_t len)
{
    struct sonde_pb_reader r = sonde_pb_reader(data, len);
    struct sonde_pb_field f;
    int more, strings = 0;
    while ((more = sonde_pb_next(&r, &f)) > 0) {
        if (f.number > PPROF_FIELD_LAST) return 0;
        if (f.number <= PPROF_STRING && f.wire != SONDE_PB_BYTES) return 0;
        strings += f.number == PPROF_STRING;
    }
    return !more && strings;
}

static int pprof_probe(const char *data, size_t len)
{
    return sonde_gz_is(data, len) || looks_like_profile(data, len);
}

extern const struct sonde_format_ops sonde_format_pprof, sonde_format_pprof_heap;
const struct sonde_format_ops sonde_format_pprof = {
    .name = "pprof",
    .summary = "pprof's gzipped protobuf, for go tool pprof and others",
    .content_type = "application/octet-stream",
    .suffix = ".pb.gz",
    .write = sonde_pprof_write,
    .probe = pprof_probe,
    .read = sonde_pprof_read,
};
const struct sonde_format_ops sonde_format_pprof_heap = {
    .name = "pprof-heap",
    .summary = "all kinds of memory samples in one pprof file, as Go's heap profiles",
    .content_type = "application/octet-stream",
    .suffix = ".pb.gz",
    .write = sonde_pprof_write_heap,
};
