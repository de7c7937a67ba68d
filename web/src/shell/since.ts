// How far back pages look until somebody chooses: as far as there is anything to see, 15 minutes at
// the most. An agent that was just started would otherwise show curves a few pixels wide.

import { send } from '../core/api';
import { DEFAULT_SECONDS, state } from '../core/state';
import { setViewing } from '../core/viewing';

const STEPS: readonly number[] = [60, 120, 300, 600, DEFAULT_SECONDS];
const FULL = 1.2; // a range that overflows by a fifth makes room for the next
const PATIENCE_MS = 500;

// The range for an agent that has been up so long, and in how many seconds the next is due.
export function rangeFor(up: number): { seconds: number; next: number | null } {
    const seconds = STEPS.find((s) => up < s * FULL) ?? DEFAULT_SECONDS;
    return { seconds, next: seconds < DEFAULT_SECONDS ? seconds * FULL - up : null };
}

function look(up: number): void {
    const { seconds, next } = rangeFor(up);
    state.setDefault(seconds);
    if (next !== null) window.setTimeout(() => look(up + next), next * 1000);
}

// Resolves when it is known, or is not worth waiting for: pages then begin with the longest.
export async function startRange(): Promise<void> {
    // Says how long also with 503, which is what it is in the first second.
    const asked = send('', '/healthz', {}).then(async (answer) => {
        const { uptime_s: up, files } = await answer.json() as { uptime_s?: number; files?: number };
        setViewing(files ?? 0);
        if (up !== undefined && !files) look(up);
    }).catch(() => {});
    await Promise.race([asked, new Promise((go) => window.setTimeout(go, PATIENCE_MS))]);
}
