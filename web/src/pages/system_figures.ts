// Processes and threads out of their series. No DOM.

import { Labels, Process } from '../core/types';

export interface Reading { name: string; labels: Labels; pid: number | null; value: number; last: number } // NaN: none

export interface ThreadRow {
    tid: string;
    name: string;
    state: string;
    cpu: number | null;      // cores
    user: number | null;
    system: number | null;
    voluntary: number | null; // switches per second
    involuntary: number | null;
    lastCpu: number | null;
}

const STATES = ['running', 'sleeping', 'waiting for a disk', 'stopped', 'ended', 'idle'];

function known(v: number): number | null {
    return Number.isNaN(v) ? null : v;
}

// tid "other" is what threads without series of their own have used.
export function threadsOf(readings: readonly Reading[], pid: number): ThreadRow[] {
    const rows = new Map<string, ThreadRow>();
    for (const r of readings) {
        const tid = r.labels['tid'];
        if (r.pid !== pid || tid === undefined) continue;
        let row = rows.get(tid);
        if (!row) {
            row = { tid, name: r.labels['name'] ?? '', state: '', cpu: null, user: null, system: null, voluntary: null, involuntary: null, lastCpu: null };
            rows.set(tid, row);
        }
        const now = known(r.value);
        const last = known(r.last) ?? now;
        switch (r.name) {
            case 'sonde_thread_cpu_seconds_total':
                if (r.labels['mode'] === 'user') row.user = now;
                else row.system = now;
                if (now !== null) row.cpu = (row.cpu ?? 0) + now;
                break;
            case 'sonde_thread_context_switches_total':
                if (r.labels['type'] === 'voluntary') row.voluntary = now;
                else row.involuntary = now;
                break;
            case 'sonde_thread_state': row.state = last === null ? '' : STATES[Math.round(last)] ?? ''; break;
            case 'sonde_thread_last_cpu': row.lastCpu = last; break;
            default: break;
        }
    }
    return [...rows.values()];
}

export interface ProcessRow extends Process { started: number | null; fds: number | null; dropped: number }

export function processesOf(processes: readonly Process[], readings: readonly Reading[]): ProcessRow[] {
    const last = (name: string, pid: number) => {
        const r = readings.find((x) => x.name === name && x.pid === pid);
        return r ? known(r.last) ?? known(r.value) : null;
    };
    return processes.map((p) => ({
        ...p,
        started: last('sonde_process_start_time_seconds', p.pid),
        fds: last('sonde_process_open_fds', p.pid),
        dropped: Object.values(p.drops).reduce((a, b) => a + b, 0) + p.spans_lost,
    }));
}
