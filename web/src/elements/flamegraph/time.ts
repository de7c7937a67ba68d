// The agent's samples in order of time, as a chart.

import { clock } from '../../core/format';
import { FlameSamples } from '../../core/types';
import { Axis } from '../../flame/chart';
import { Profile } from '../../flame/data';
import { TimeSamples, ticks, timeProfile } from '../../flame/time';
import { count } from '../../flame/text';

export interface TimeChart { profile: Profile; axis: Axis; note: string }

function plain(s: FlameSamples): TimeSamples {
    return {
        frames: s.frames.map((f) => (typeof f === 'string' ? f : (f as { name: string }).name)),
        stacks: s.stacks,
        samples: s.samples,
        threads: s.threads.map((t) => (typeof t === 'string' ? t : `${t.name} (${t.tid})`)),
    };
}

export function overTime(p: Profile, s: FlameSamples): TimeChart | null {
    if (!s.samples.length) return null;
    const profile = timeProfile(p, plain(s));
    const begin = s.samples.reduce((a, x) => Math.min(a, x[0] - x[2] / 1e9), Infinity);
    const lanes = new Set(s.samples.map((x) => x[3])).size;
    return {
        profile,
        note: `${count(s.samples.length)} samples of ${lanes} thread${lanes === 1 ? '' : 's'}, each where it was taken; gaps are time off the CPU.`,
        axis: {
            ticks: (from, to, most) => ticks(begin + from / 1e9, begin + to / 1e9, most).map(({ at, step }) => {
                const digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
                const fraction = (at - Math.floor(at)).toFixed(Math.min(6, digits)).slice(1);
                return { at: (at - begin) * 1e9, text: clock(Math.floor(at + 1e-9)) + (digits ? fraction : '') };
            }),
        },
    };
}
