"""What test_gpu_kernels.sh asks of reports and traces, and a program that uses OpenCL by ctypes."""
import ctypes
import json
import sys


def truth(mode, out, report):
    commands = json.load(open(report))["gpu_commands"]
    kernels = {k["name"]: k for k in commands["kernels"]}
    assert commands["missing"] == 0, commands
    wanted = [line.split()[1:] for line in open(out) if line.startswith("truth ")]
    assert wanted, "the program said nothing"
    for name, count, ns in wanted:
        k = kernels[name]
        assert k["count"] == int(count), (name, k, count)
        assert k["untimed"] == 0, k
        if int(ns):
            assert abs(k["seconds"] * 1e9 - int(ns)) <= 0.01 * int(ns), (name, k, ns)
    assert sum(k["count"] for k in kernels.values()) == commands["recorded"], commands
    queues = commands["queues"]
    assert len(queues) == (2 if mode == "threads" else 1), queues
    assert len({q["context"] for q in queues}) == len(queues), queues
    assert all(q["out_of_order"] == (mode == "out-of-order") for q in queues), queues
    assert commands["failed"] == (3 if mode == "failing" else 0), commands
    if mode == "spans":
        phases = commands["phases"]
        assert abs(phases["prefill"] - kernels["matmul_f32"]["seconds"]) < 1e-9, phases
        assert abs(phases["decode"] - kernels["vec_add"]["seconds"]) < 1e-9, phases
        assert abs(commands["no_phase_s"] - kernels["rms_norm"]["seconds"]) < 1e-9, commands
        by_request = {r["request"]: r["commands"] for r in commands["requests"]}
        assert by_request == {"first": 24, "second": 48}, by_request


def trace(path):
    events = json.load(open(path))["traceEvents"]
    slices = [e for e in events if e.get("cat") == "gpu" and e["ph"] == "X"]
    assert len(slices) == 6 * 12 + 12, len(slices)
    names = [e for e in events if e["ph"] == "M" and e["pid"] == slices[0]["pid"]]
    assert any(e["args"]["name"] == "GPU" for e in names), names
    slices.sort(key=lambda e: e["ts"])
    for before, after in zip(slices, slices[1:]):
        assert before["ts"] + before["dur"] <= after["ts"] + 0.002, (before, after)
    assert all(e["args"]["queued_us"] <= e["ts"] + 1000 for e in slices)


def left(report):
    commands = json.load(open(report))["gpu_commands"]
    assert commands["enqueued"] == 12, commands
    assert commands["recorded"] + commands["missing"] == 12, commands


def run_kernel(cl, queue, kernel, count):
    size = ctypes.c_size_t(count)
    rc = cl.clEnqueueNDRangeKernel(queue, kernel, 1, None, ctypes.byref(size), None, 0, None, None)
    assert rc == 0, rc


def by_ctypes():
    cl = ctypes.CDLL("libOpenCL.so.1")
    pointer = ctypes.c_void_p
    for name in ("clCreateContext", "clCreateCommandQueue", "clCreateProgramWithSource",
                 "clCreateKernel", "clCreateBuffer"):
        getattr(cl, name).restype = pointer
    platform, device, rc = pointer(), pointer(), ctypes.c_int()
    assert cl.clGetPlatformIDs(1, ctypes.byref(platform), None) == 0
    assert cl.clGetDeviceIDs(platform, ctypes.c_ulong(0xFFFFFFFF), 1, ctypes.byref(device), None) == 0
    context = pointer(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, ctypes.byref(rc)))
    queue = pointer(cl.clCreateCommandQueue(context, device, ctypes.c_ulong(0), ctypes.byref(rc)))
    source = ctypes.c_char_p(b"__kernel void twice(__global int *a) { a[get_global_id(0)] *= 2; }")
    program = pointer(cl.clCreateProgramWithSource(context, 1, ctypes.byref(source), None, ctypes.byref(rc)))
    assert cl.clBuildProgram(program, 1, ctypes.byref(device), None, None, None) == 0
    kernel = pointer(cl.clCreateKernel(program, b"twice", ctypes.byref(rc)))
    data = (ctypes.c_int * 64)(*range(64))
    buffer = pointer(cl.clCreateBuffer(context, ctypes.c_ulong(1 | 32), ctypes.c_size_t(256), data,
                                       ctypes.byref(rc)))
    assert cl.clSetKernelArg(kernel, 0, ctypes.c_size_t(8), ctypes.byref(buffer)) == 0
    for _ in range(3):
        run_kernel(cl, queue, kernel, 64)
    assert cl.clEnqueueReadBuffer(queue, buffer, 1, ctypes.c_size_t(0), ctypes.c_size_t(256), data, 0,
                                  None, None) == 0
    print(list(data))


if __name__ == "__main__":
    {"truth": truth, "trace": trace, "left": left, "ctypes": by_ctypes}[sys.argv[1]](*sys.argv[2:])
