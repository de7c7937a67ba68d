// Sums over the outcomes of requests. No DOM.

import { Outcomes } from '../core/types';

export function endedOf(o: Outcomes): number {
    return o.ok + o.error + o.cancelled + o.timeout + o.lost;
}

// As /health and the error series count: a client that went away is not a failure.
export function failedOf(o: Outcomes): number {
    return o.error + o.timeout + o.lost;
}

// null: no request was held against an objective.
export function goodputOf(met: number, missed: number): number | null {
    return met + missed > 0 ? met / (met + missed) : null;
}

// Names that several processes have.
export function sharedNames(rows: readonly { process: string; pid: number }[]): Set<string> {
    const first = new Map<string, number>();
    const shared = new Set<string>();
    for (const r of rows) {
        const pid = first.get(r.process) ?? r.pid;
        first.set(r.process, pid);
        if (pid !== r.pid) shared.add(r.process);
    }
    return shared;
}
