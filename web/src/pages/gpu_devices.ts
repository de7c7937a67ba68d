// The GPUs that the agent reads, why figures of them are absent, and the processes that use them: tables
// above the charts of the page GPU.

import { Api } from '../core/api';
import { make } from '../core/dom';
import { bytes, percent } from '../core/format';
import { addTerms } from '../core/glossary';
import { Gpu, GpuAnswer, GpuUser, absentOf, figureOf, gpuName, throttledBy } from './gpu_figures';
import { List, card, share } from './kit';

addTerms({
    gpu_devices: { title: 'GPUs', what: 'Every GPU that the agent reads, and instances of those that are partitioned (MIG). Busy: the share of time in which it had something to do, which does not mean that it did much.',
        how: 'NVML, ROCm SMI, or the kernel\'s files; sonde doctor says which, and what each card lacks.' },
    gpu_processes: { title: 'Processes on GPUs', what: 'Who uses memory and time of the GPUs, whether sonde watches them or not.', how: 'NVML, or fdinfo of processes that sonde may look at.' },
});

const whole = (v: number | null, unit: string) => (v === null ? '–' : `${Math.round(v)} ${unit}`);
const shown = (v: number | null) => (v === null ? '–' : share(v, percent(v)));

export class GpuDevices {
    readonly element = make('div', { class: 'stack' });
    private readonly devices = card('GPUs', { hidden: true });
    private readonly processes = card('Processes on GPUs', { hidden: true });
    private readonly list = new List<Gpu>('GPUs', gpuName, [
        { title: 'GPU', cell: (g) => make('span', { class: 'mono' }, gpuName(g)) },
        { title: 'Name', cell: (g) => make('span', { title: [g.pci, g.uuid, g.driver, g.driver_version].filter((v) => v).join(', ') }, g.name) },
        { title: 'Busy', number: true, cell: (g) => shown(figureOf(g, 'utilization_ratio')) },
        { title: 'SM', number: true, hint: 'streaming multiprocessors that were busy', cell: (g) => shown(figureOf(g, 'sm_activity_ratio')) },
        { title: 'Memory', number: true, hint: 'used of all', cell: (g) => `${bytes(figureOf(g, 'memory_used_bytes'))} of ${bytes(figureOf(g, 'memory_total_bytes'))}` },
        { title: 'Temperature', number: true, cell: (g) => whole(figureOf(g, 'temperature_celsius.core'), '°C') },
        { title: 'Power', number: true, cell: (g) => whole(figureOf(g, 'power_watts'), 'W') },
        { title: 'Clock', number: true, cell: (g) => { const hz = figureOf(g, 'clock_hertz.graphics'); return whole(hz === null ? null : hz / 1e6, 'MHz'); } },
        { title: 'State', cell: (g) => throttledBy(g) },
        { title: 'Absent', number: true, hint: 'figures that the card lacks; why, in the tip', cell: (g) => make('span', { title: absentOf(g) || null }, String(Object.keys(g.absent).length)) },
    ]);
    private readonly users = new List<GpuUser>('Processes on GPUs', (p) => `${p.gpu} ${p.mig} ${p.pid}`, [
        { title: 'PID', number: true, cell: (p) => String(p.pid) },
        { title: 'Program', cell: (p) => p.program ?? '–' },
        { title: 'GPU', cell: (p) => make('span', { class: 'mono' }, gpuName(p)) },
        { title: 'Memory', number: true, cell: (p) => bytes(p.memory_bytes) },
        { title: 'Busy', number: true, cell: (p) => shown(p.utilization_ratio) },
    ]);

    constructor(private readonly api: Api) {
        this.devices.append(this.list.element);
        this.processes.append(this.users.element);
        this.element.append(this.devices, this.processes);
    }

    // Whether there is any; an agent that is too old has none.
    async load(): Promise<GpuAnswer | null> {
        const answer = await this.api.get<GpuAnswer>('/api/gpu').catch(() => null);
        const devices = answer?.devices.filter((g) => g.state !== 'gone') ?? [];
        this.devices.hidden = !devices.length;
        this.processes.hidden = !answer?.processes.length;
        this.list.show(devices);
        this.users.show(answer?.processes ?? []);
        return answer;
    }
}
