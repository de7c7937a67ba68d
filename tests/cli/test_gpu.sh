#!/usr/bin/env bash
# GPUs: none, stand-ins of NVIDIA's and AMD's libraries, an old driver, one that hangs: doctor, /metrics,
# /api/gpu, /health, top, a recording's report, and that nothing runs where there is no GPU.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit
root=$scratch/machine
mkdir -p "$root/dev"
ln -s /proc "$root/proc" # names of processes
stand_in() { env LD_LIBRARY_PATH="$programs/gpu" SONDE_GPU_ROOT="$root" "$@"; }

# ---- none --------------------------------------------------------------------------------------
status 0 env SONDE_GPU_ROOT="$root" "$sonde" doctor --listen 127.0.0.1:0
has "none" '^ok +gpu +none found \(looked for /dev/nvidiactl, .*/sys/class/drm/card\*\)' out
SONDE_GPU_ROOT=$root start_agent log --interval 0.2
ticked() { curl -sf "$url/metrics" | grep -q '^sonde_agent_tick_seconds'; }
until_true ticked
curl -sf "$url/metrics" >metrics
lacks "no series" '^sonde_gpu_' metrics
same "no process" "" "$(pgrep -P "$agent" -x sonde-gpu)"
curl -sf "$url/api/gpu" >answer
has "asked for" '"enabled":true.*"state":"absent".*"devices":\[\],"processes":\[\]' answer
status 0 "$sonde" top "$url" --once --page gpu --width 90
has "top" 'No GPU found' out
end() { kill -TERM "$agent" && wait "$agent"; }
end
start_agent log --set gpu.enabled=false
has "off" '"enabled":false' <(curl -sf "$url/api/gpu")
end

# ---- NVIDIA ------------------------------------------------------------------------------------
touch "$root/dev/nvidiactl"
status 0 stand_in NVML_CARDS=2 NVML_MIG=1 "$sonde" doctor --listen 127.0.0.1:0
has "the library" '^ok +gpu +nvml: libnvidia-ml.so.1 12\.550\.54\.15, driver 550\.54\.15, 2 cards; a reading takes' out
has "a card" '^ok +gpu +GPU 1: Stand-in H100, 0000:3c:00\.0, driver nvidia 550\.54\.15; [0-9]+ counters by nvml' out
has "why not" '^ok +gpu +GPU 1 has no .*sm_activity_ratio.*: the card or its driver does not have it' out
has "an instance" '^ok +gpu +GPU 0, instance 2: Stand-in H100 MIG' out
status 0 stand_in NVML_FAIL=nvmlInit_v2=18 "$sonde" doctor --listen 127.0.0.1:0
has "another version" '^warn +gpu +nvml: libnvidia-ml.so.1: the library is of another version than the driver' out
status 0 env LD_LIBRARY_PATH="$programs/gpu_old" SONDE_GPU_ROOT="$root" "$sonde" doctor --listen 127.0.0.1:0
has "an old driver" '^ok +gpu +GPU 0 has no .*energy_joules_total.*: the library is too old for it' out
has "what it has" '^ok +gpu +GPU 0: nvidia0, |^ok +gpu +GPU 0: Stand-in H100' out
status 0 env SONDE_GPU_ROOT="$root" "$sonde" doctor --listen 127.0.0.1:0
has "no library" '^warn +gpu +nvml: there is a driver, but no libnvidia-ml.so.1|^ok +gpu +nvml' out

sleep 600 &
used=$!
started+=("$used")
NVML_CARDS=2 NVML_PID=$used NVML_XID=1 LD_LIBRARY_PATH=$programs/gpu SONDE_GPU_ROOT=$root start_agent log --interval 0.2
read_it() { curl -sf "$url/metrics" | grep -q '^sonde_gpu_sm_activity_ratio'; }
until_true read_it
curl -sf "$url/metrics" >metrics
has "utilization" '^sonde_gpu_utilization_ratio\{gpu="1"\} 0\.41$' metrics
has "memory" '^sonde_gpu_memory_used_bytes\{gpu="0"\} 32212254720$' metrics
has "temperature" '^sonde_gpu_temperature_celsius\{gpu="0",sensor="memory"\} 70$' metrics
has "energy" '^sonde_gpu_energy_joules_total\{gpu="0"\} 123456\.789$' metrics
has "which" '^sonde_gpu_info\{gpu="0",name="Stand-in H100",uuid="GPU-00000001",pci="0000:3b:00.0"' metrics
has "errors" '^sonde_gpu_xid_errors_total\{gpu="0",xid="79"\} 2$' metrics
lacks "what is not known" '^sonde_gpu_decoder' metrics
curl -sf "$url/api/gpu" >answer
python3 - answer "$used" <<'END' || complain "/api/gpu:" "$(cat answer)"
import json, sys
a = json.load(open(sys.argv[1]))
assert [s["state"] for s in a["sources"]][0] == "reading", a["sources"]
one = a["devices"][1]
assert one["gpu"] == 1 and one["mig"] is None and one["state"] == "ok" and one["by"] == "nvml"
assert one["figures"]["utilization_ratio"] == 0.41 and one["figures"]["clock_hertz.sm"] == 1975e6
assert one["absent"]["decoder_utilization_ratio"] == "what was read is not a value"
assert a["devices"][0]["xid_errors"] == {"79": 2, "13": 1}
p = [p for p in a["processes"] if p["pid"] == int(sys.argv[2])]
assert p[0]["program"] == "sleep" and p[0]["memory_bytes"] == 2 << 30 and p[0]["gpu"] == 0, p
END
python3 -c 'import json, sys; assert abs(json.load(sys.stdin)["gpu_utilization"] - 40.5) < 0.01' \
    < <(curl -sf "$url/health?format=flat") || complain "/health"
status 0 "$sonde" top "$url" --once --page gpu --width 110
has "top: a card" '^1 +Stand-in H100 +41\.0 % +30\.0 GiB +80\.0 GiB +37\.5 % +61 +300 +700 +1980 +power' out
has "top: a process" "^ +$used +sleep +0 +2\.00 GiB" out
end

# ---- a recording -------------------------------------------------------------------------------
status 0 stand_in NVML_CARDS=2 bash -c 'NVML_PID=$$ exec "$@"' - "$sonde" record -o r.run -- \
    bash -c 'end=$((SECONDS + 4)); while [ $SECONDS -lt $end ]; do :; done'
status 0 "$sonde" report r.run
has "report" '^ +1  Stand-in H100  41\.0 %' out
status 0 "$sonde" report r.run --format markdown
has "report as Markdown" '^\| *1 \| Stand-in H100 ' out
status 0 "$sonde" report r.run --format csv
has "report as CSV" '^gpus,.*utilization_ratio' out
status 0 "$sonde" report --schema
cp out schema.json
status 0 "$sonde" report r.run --json
/usr/bin/python3 -c 'import json, jsonschema, sys
jsonschema.Draft202012Validator(json.load(open("schema.json"))).validate(json.load(open("out")))' ||
    complain "the report is not as its schema says"
python3 - out <<'END' || complain "report as JSON"
import json, sys
g = json.load(open(sys.argv[1]))["gpus"]["list"]
assert len(g) == 2 and g[0]["name"] == "Stand-in H100" and abs(g[1]["utilization_ratio"]["mean"] - 0.41) < 1e-6
END

# ---- AMD, and a library that hangs -------------------------------------------------------------
rm "$root/dev/nvidiactl"
touch "$root/dev/kfd"
status 0 stand_in "$sonde" doctor --listen 127.0.0.1:0
has "AMD" '^ok +gpu +rocm_smi: librocm_smi64.so 5\.0\.2, 1 card; ' out
has "AMD: a card" '^ok +gpu +GPU 0: Stand-in MI300X, 0000:83:00\.0, driver amdgpu' out
touch "$root/dev/nvidiactl"
status 0 stand_in NVML_HANG=nvmlDeviceGetFanSpeed "$sonde" doctor --listen 127.0.0.1:0
has "it hangs" '^warn +gpu +nvml: it (did|does) not answer' out
has "the other does not" '^ok +gpu +GPU 0: Stand-in MI300X' out
status 0 stand_in NVML_CRASH=nvmlDeviceGetFanSpeed "$sonde" doctor --listen 127.0.0.1:0
has "it crashes" '^warn +gpu +nvml: it( crashed|s process ended)' out
finish
