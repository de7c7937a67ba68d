/* choice.c - which devices there are, and which one is meant. They are numbered over all platforms,
 * in the order in which the loader names them. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "opencl/opencl_private.h"

enum { PLATFORMS_MAX = 16, NUMBER_MAX = OPENCL_DEVICES_MAX - 1 };

int opencl_wish_parse(const char *text, struct opencl_wish *out, struct fail *why)
{
    static const struct { const char *text; enum opencl_wish_kind kind; } words[] = {
        { "cpu", OPENCL_WISH_CPU }, { "opencl", OPENCL_WISH_ANY }, { "list", OPENCL_WISH_LIST } };
    static const char prefix[] = "opencl:";
    if (!text) text = "cpu";
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(text, words[i].text)) continue;
        *out = (struct opencl_wish){ words[i].kind, 0 };
        return 0;
    }
    if (!strncmp(text, prefix, sizeof(prefix) - 1)) {
        const char *digits = text + sizeof(prefix) - 1;
        char *end;
        const unsigned long n = isdigit((unsigned char)*digits) ? strtoul(digits, &end, 10) : 0;
        if (isdigit((unsigned char)*digits) && !*end && n <= NUMBER_MAX) {
            *out = (struct opencl_wish){ OPENCL_WISH_NUMBER, (uint32_t)n };
            return 0;
        }
    }
    return fail_set(why, "--device is '%.64s', but has to be cpu, opencl, opencl:N (0 to %d) or "
                    "list", text, NUMBER_MAX);
}

/* ---- What is told of a device ---------------------------------------------------------------- */

/* Names come from drivers, and go to terminals and labels. */
static void text_clean(char *text)
{
    size_t n = strlen(text), at = 0;
    while (text[at] == ' ') at++;
    memmove(text, text + at, n - at + 1);
    for (n -= at; n && text[n - 1] == ' '; n--) text[n - 1] = 0;
    for (char *c = text; *c; c++) {
        if ((unsigned char)*c < 0x20 || (unsigned char)*c > 0x7e) *c = '?';
    }
}

static void device_text(const struct opencl_library *cl, cl_device_id id, cl_device_info what,
                        char *out, size_t size)
{
    char all[512] = "";
    if (cl->GetDeviceInfo(id, what, sizeof(all) - 1, all, NULL)) strcpy(all, "?");
    text_clean(all);
    snprintf(out, size, "%.*s", (int)size - 1, all);
}

static void platform_text(const struct opencl_library *cl, cl_platform_id id, char *out,
                          size_t size)
{
    char all[512] = "";
    if (cl->GetPlatformInfo(id, CL_PLATFORM_NAME, sizeof(all) - 1, all, NULL)) strcpy(all, "?");
    text_clean(all);
    snprintf(out, size, "%.*s", (int)size - 1, all);
}

/* Why the kernels would not run there, or not compute the same; NULL = they do. */
static const char *device_unusable(const struct opencl_library *cl, cl_device_id id)
{
    static const struct { cl_device_info what; const char *otherwise; } musts[] = {
        { CL_DEVICE_AVAILABLE, "it is not available" },
        { CL_DEVICE_COMPILER_AVAILABLE, "its driver has no compiler" },
        { CL_DEVICE_ENDIAN_LITTLE, "it is big-endian" } };
    for (size_t i = 0; i < sizeof(musts) / sizeof(musts[0]); i++) {
        cl_bool yes = CL_FALSE;
        if (cl->GetDeviceInfo(id, musts[i].what, sizeof(yes), &yes, NULL) || !yes) {
            return musts[i].otherwise;
        }
    }
    cl_device_fp_config floats = 0;
    if (cl->GetDeviceInfo(id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof(floats), &floats, NULL) ||
        !(floats & CL_FP_ROUND_TO_NEAREST)) return "its floats do not round to nearest";
    unsigned major = 0, minor = 0;
    char version[64];
    device_text(cl, id, CL_DEVICE_VERSION, version, sizeof(version));
    if (sscanf(version, "OpenCL %u.%u", &major, &minor) != 2 || major * 10 + minor < 12) {
        return "OpenCL 1.2 is needed";
    }
    return NULL;
}

static void device_describe(const struct opencl_library *cl, struct opencl_found *f)
{
    f->memory = f->buffer_max = 0;
    f->units = 0;
    f->type = CL_DEVICE_TYPE_DEFAULT;
    cl->GetDeviceInfo(f->id, CL_DEVICE_TYPE, sizeof(f->type), &f->type, NULL);
    cl->GetDeviceInfo(f->id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(f->units), &f->units, NULL);
    cl->GetDeviceInfo(f->id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(f->memory), &f->memory, NULL);
    cl->GetDeviceInfo(f->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(f->buffer_max), &f->buffer_max,
                      NULL);
    device_text(cl, f->id, CL_DEVICE_NAME, f->name, sizeof(f->name));
    device_text(cl, f->id, CL_DEVICE_VERSION, f->version, sizeof(f->version));
    platform_text(cl, f->platform, f->platform_name, sizeof(f->platform_name));
    f->unusable = device_unusable(cl, f->id);
}

int opencl_find(const struct opencl_library *cl, struct opencl_found out[OPENCL_DEVICES_MAX],
                struct fail *why)
{
    cl_platform_id platforms[PLATFORMS_MAX];
    cl_uint platforms_count = 0;
    int count = 0;
    const cl_int error = cl->GetPlatformIDs(PLATFORMS_MAX, platforms, &platforms_count);
    if (platforms_count > PLATFORMS_MAX) platforms_count = PLATFORMS_MAX;
    for (cl_uint p = 0; !error && p < platforms_count; p++) {
        cl_device_id ids[OPENCL_DEVICES_MAX];
        cl_uint ids_count = 0;
        const cl_uint room = (cl_uint)(OPENCL_DEVICES_MAX - count);
        if (!room || cl->GetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, room, ids, &ids_count)) {
            continue; /* a platform without devices */
        }
        for (cl_uint i = 0; i < ids_count && i < room; i++) {
            out[count] = (struct opencl_found){ .platform = platforms[p], .id = ids[i] };
            device_describe(cl, &out[count++]);
        }
    }
    if (count) return count;
    return fail_set(why, "OpenCL has no device here: install the driver of your device (on a CPU, "
                    "Debian: pocl-opencl-icd); `clinfo` lists what there is");
}

/* ---- The list -------------------------------------------------------------------------------- */

static const char *type_name(cl_device_type type)
{
    if (type & CL_DEVICE_TYPE_GPU) return "GPU";
    if (type & CL_DEVICE_TYPE_ACCELERATOR) return "accelerator";
    return type & CL_DEVICE_TYPE_CPU ? "CPU" : "other";
}

void opencl_list_print(FILE *to)
{
    struct opencl_found found[OPENCL_DEVICES_MAX];
    struct fail why;
    const struct opencl_library *cl = opencl_library(&why);
    fprintf(to, "cpu        the engine's own kernels; the default\n");
    const int count = cl ? opencl_find(cl, found, &why) : -1;
    if (count < 0) fprintf(to, "opencl     %s\n", why.text);
    for (int i = 0; i < count; i++) {
        const struct opencl_found *f = &found[i];
        char number[24];
        snprintf(number, sizeof(number), "opencl:%d", i);
        fprintf(to, "%-10s %s; %s, %u compute units, %.1f GB; %s, %s%s%s\n", number, f->name,
                type_name(f->type), f->units, (double)f->memory / (1 << 30), f->platform_name,
                f->version, f->unusable ? "; not usable: " : "", f->unusable ? f->unusable : "");
    }
}
