// Which series are of GPUs. No DOM.

import { Family } from '../core/types';

// sonde's own, and those of the exporters that people run beside it.
const GPU = /^(sonde_gpu_|DCGM_|nvidia_|nvml_|amd_|amdgpu_|gpu_|xpu_)/i;

export function gpuFamilies(families: readonly Family[]): Family[] {
    const rank = (f: Family) => /util/i.test(f.name) ? 0 : /mem|fb_/i.test(f.name) ? 1 : /temp/i.test(f.name) ? 2 : /power/i.test(f.name) ? 3 : 4;
    return families.filter((f) => GPU.test(f.name) && !f.name.endsWith('_info')).sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1));
}

// The label that tells devices apart, '' if there is none.
export function deviceLabel(f: Family): string {
    for (const label of ['device', 'gpu', 'minor_number', 'index', 'card', 'uuid', 'UUID']) {
        if (f.series.some((s) => s.labels[label] !== undefined)) return label;
    }
    return '';
}

// What /api/gpu answers.
export interface Gpu {
    gpu: number;
    mig: number | null;
    name: string;
    uuid: string | null;
    pci: string;
    driver: string | null;
    driver_version: string | null;
    by: string;
    state: string; // ok, lost, gone
    figures: Record<string, number | null>;
    absent: Record<string, string>;
}

export interface GpuUser { gpu: number | null; mig: number | null; pid: number; program: string | null; memory_bytes: number | null; utilization_ratio: number | null }

export interface GpuAnswer {
    enabled: boolean;
    sources: { name: string; looked_for: string; state: string; note: string | null }[];
    devices: Gpu[];
    processes: GpuUser[];
}

export function figureOf(g: Gpu, name: string): number | null {
    return g.figures[name] ?? null;
}

// '0', or '0.2' for an instance.
export function gpuName(g: { gpu: number | null; mig: number | null }): string {
    if (g.gpu === null) return '–';
    return g.mig === null ? String(g.gpu) : `${g.gpu}.${g.mig}`;
}

// What lowers its clocks, or that it is gone.
export function throttledBy(g: Gpu): string {
    if (g.state !== 'ok') return g.state;
    const by = ['thermal', 'hardware', 'power'].filter((reason) => (figureOf(g, `throttled_ratio.${reason}`) ?? 0) > 0);
    return by.length ? `lowered by ${by.join(', ')}` : 'ok';
}

// "fan_ratio: the card or its driver does not have it", a line each.
export function absentOf(g: Gpu): string {
    return Object.entries(g.absent).map(([name, why]) => `${name}: ${why}`).join('\n');
}

// Why there is no GPU: who is broken, else what was looked for.
export function whyNone(a: GpuAnswer | null): string {
    if (!a) return 'This agent does not tell about GPUs.';
    if (!a.enabled) return 'GPUs are not read: gpu.enabled is false.';
    const broken = a.sources.filter((s) => s.state === 'broken');
    if (broken.length) return broken.map((s) => `${s.name}: ${s.note ?? 'it does not work'}.`).join(' ');
    return `No GPU was found; looked for ${a.sources.map((s) => s.looked_for).join(', ')}.`;
}
