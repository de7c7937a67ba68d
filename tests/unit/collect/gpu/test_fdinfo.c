/* fdinfo of drivers as the kernel's documentation and they have it, and lines that are wrong. */
#include "gpu_fixture.h"

#include "collect/gpu/fdinfo.h"

static void parse(const char *text, struct sonde_gpu_fdinfo *out)
{
    sonde_gpu_fdinfo_parse(text, strlen(text), out);
}

static void drivers(void **state)
{
    (void)state;
    struct sonde_gpu_fdinfo f;
    parse("pos:\t0\nflags:\t02100002\nmnt_id:\t26\nino:\t1\n"
          "drm-driver:\tamdgpu\ndrm-client-id:\t42\ndrm-pdev:\t0000:03:00.0\npasid:\t32770\n"
          "drm-memory-vram:\t2048 KiB\ndrm-memory-gtt: \t1024 KiB\ndrm-memory-cpu: \t0 KiB\n"
          "drm-engine-gfx:\t1000 ns\ndrm-engine-compute:\t500 ns\ndrm-engine-dma:\t7 ns\n"
          "drm-engine-enc_1:\t3 ns\ndrm-engine-dec:\t4 ns\n", &f);
    assert_string_equal(f.driver, "amdgpu");
    assert_string_equal(f.pdev, "0000:03:00.0");
    assert_true(f.has_client && f.client == 42);
    assert_int_equal(f.engine[SONDE_GPU_ENGINE_OF_RENDER].busy_ns, 1000);
    assert_int_equal(f.engine[SONDE_GPU_ENGINE_OF_COMPUTE].busy_ns, 500);
    assert_int_equal(f.engine[SONDE_GPU_ENGINE_OF_COPY].busy_ns, 7);
    assert_int_equal(f.engine[SONDE_GPU_ENGINE_OF_VIDEO].busy_ns, 7);
    assert_false(f.engine[SONDE_GPU_ENGINE_OF_OTHER].known);
    assert_int_equal(f.device_bytes, 2 << 20);
    assert_int_equal(f.system_bytes, 1 << 20);

    parse("drm-driver:\ti915\ndrm-client-id:\t7\ndrm-pdev:\t0000:00:02.0\n"
          "drm-total-system0:\t100 MiB\ndrm-resident-system0:\t50 MiB\n"
          "drm-resident-local0:\t1 GiB\n"
          "drm-memory-system0: 9 KiB\n"
          "drm-engine-render:\t25662044495 ns\ndrm-engine-capacity-video:\t2\n"
          "drm-engine-video:\t10 ns\ndrm-engine-video-enhance:\t5 ns\n", &f);
    assert_int_equal(f.engine[SONDE_GPU_ENGINE_OF_VIDEO].capacity, 2);
    assert_int_equal(f.engine[SONDE_GPU_ENGINE_OF_VIDEO].busy_ns, 15);
    assert_int_equal(f.device_bytes, 1 << 30);
    assert_int_equal(f.system_bytes, 50 << 20);

    parse("drm-driver:\txe\ndrm-client-id:\t3\ndrm-pdev:\t0000:03:00.0\n"
          "drm-cycles-rcs:\t28257900\ndrm-total-cycles-rcs:\t7655183225\n"
          "drm-cycles-ccs:\t10\ndrm-total-cycles-ccs:\t20\ndrm-resident-vram0:\t64 KiB\n", &f);
    assert_int_equal(f.engine[SONDE_GPU_ENGINE_OF_RENDER].cycles, 28257900);
    assert_int_equal(f.engine[SONDE_GPU_ENGINE_OF_RENDER].all_cycles, 7655183225);
    assert_int_equal(f.engine[SONDE_GPU_ENGINE_OF_COMPUTE].cycles, 10);
    assert_int_equal(f.device_bytes, 65536);
}

static void hostile(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "\n", "drm-", "drm-:", "drm-driver:", "drm-driver:\t", "drm-engine-:\t1 ns",
        "drm-engine-gfx:\t-1 ns", "drm-engine-gfx:\t99999999999999999999999 ns",
        "drm-engine-gfx:\tabc", "drm-memory-vram:\t18446744073709551615 GiB",
        "drm-memory-vram:\t1 parsec", "drm-engine-capacity-gfx:\t0",
        "drm-engine-capacity-gfx:\t99999999", "drm-client-id:\t-5", "drm-client-id: x",
        "drm-total-cycles-", "\xff\xfe\xfd:\t1", "drm-driver:\t\x01\x02\n",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct sonde_gpu_fdinfo f;
        parse(texts[i], &f);
        assert_false(f.has_client);
        assert_int_equal(f.device_bytes, 0);
        assert_int_equal(f.engine[SONDE_GPU_ENGINE_OF_RENDER].busy_ns, 0);
        assert_int_equal(f.engine[SONDE_GPU_ENGINE_OF_RENDER].capacity, 0);
    }
    /* Sums stay where they are when they would wrap. */
    struct sonde_gpu_fdinfo f;
    parse("drm-engine-gfx:\t18446744073709551615 ns\ndrm-engine-gfx_1:\t18446744073709551615 ns\n",
          &f);
    assert_true(f.engine[SONDE_GPU_ENGINE_OF_RENDER].busy_ns == UINT64_MAX);
    char big[70000];
    memset(big, 'x', sizeof(big));
    sonde_gpu_fdinfo_parse(big, sizeof(big), &f);
    assert_string_equal(f.driver, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(drivers), cmocka_unit_test(hostile) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
