// The agent's clock. Browser and agent may be on machines whose clocks differ; what counts for
// ranges is the agent's.

let skew = 0;
let stopped: number | null = null; // frozen files have a time of their own

// An answer's time is up to a tick old, so only what a tick cannot explain is a difference.
export function noteTime(t: number): void {
    const difference = t - Date.now() / 1000;
    if (Math.abs(difference - skew) > 3) skew = Math.abs(difference) > 3 ? difference : 0;
}

export function stopAt(t: number): void {
    stopped = t;
}

export function now(): number {
    return stopped ?? Date.now() / 1000 + skew;
}
