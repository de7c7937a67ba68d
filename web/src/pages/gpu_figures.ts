// Which series are of GPUs. No DOM.

import { Family } from '../core/types';

// sonde's own, and those of the exporters that people run beside it.
const GPU = /^(sonde_gpu_|DCGM_|nvidia_|nvml_|amd_|amdgpu_|gpu_|xpu_)/i;

export function gpuFamilies(families: readonly Family[]): Family[] {
    const rank = (f: Family) => /util/i.test(f.name) ? 0 : /mem|fb_/i.test(f.name) ? 1 : /temp/i.test(f.name) ? 2 : /power/i.test(f.name) ? 3 : 4;
    return families.filter((f) => GPU.test(f.name)).sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1));
}

// The label that tells devices apart, '' if there is none.
export function deviceLabel(f: Family): string {
    for (const label of ['device', 'gpu', 'minor_number', 'index', 'card', 'uuid', 'UUID']) {
        if (f.series.some((s) => s.labels[label] !== undefined)) return label;
    }
    return '';
}
