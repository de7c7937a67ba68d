"""machine: where figures were measured, and what disturbed them."""
import os
import platform
import re

from common import read


def cpu_model():
    found = re.search(r"^model name\s*:\s*(.*)$", read("/proc/cpuinfo"), re.M)
    return found.group(1) if found else platform.machine()


def stolen_jiffies():
    """(jiffies another guest had our CPU, all jiffies)"""
    fields = [int(x) for x in read("/proc/stat").splitlines()[0].split()[1:]]
    return fields[7], sum(fields)


def machine_facts():
    return {
        "cpu": cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "hypervisor": "hypervisor" in read("/proc/cpuinfo"),
        "kernel": platform.release(),
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "none"),
        "clocksource": read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "load_before": os.getloadavg()[0],
    }
