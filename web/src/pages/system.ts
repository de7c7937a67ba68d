// The machine, the processes that are watched and their threads, and what sonde itself costs.

import { Api, apiAt } from '../core/api';
import { Handle, boardOf } from '../core/board';
import { clear, make } from '../core/dom';
import { bytes, clock, count, digits, percent, rate, since } from '../core/format';
import { isFrozen } from '../core/frozen';
import { addTerms } from '../core/glossary';
import { now } from '../core/now';
import { Page } from '../core/page';
import { empty, failed } from '../core/states';
import { state } from '../core/state';
import { live } from '../core/stream';
import { Processes } from '../core/types';
import { TILES, TileSpec } from './dashboard_tiles';
import { Following, card, chart, follow, grid, heading, pageLink, rangeText } from './kit';
import { ProcessRow, Reading, ThreadRow, processesOf, threadsOf } from './system_figures';
import { Facts, Table } from './table';
import { TileSet } from './tileset';

addTerms({
    sys_state: { title: 'State', what: 'Whether the process runs. What has ended stays listed for a while, with its last figures.' },
    sys_cpu: { title: 'CPU', what: 'CPU time per time, of one core: 200 % are two cores all the time.', how: 'From /proc, over the last interval.' },
    sys_started: { title: 'Started', what: 'When the process was started, by this machine\'s clock.' },
    sys_fds: { title: 'Open files', what: 'File descriptors in use: files, sockets, pipes. At the limit, opening one more fails.' },
    sys_drops: {
        title: 'Dropped', what: 'Records and definitions that the program could not keep as asked, and spans that were overwritten before the agent read them. Anything but 0 means figures are incomplete.',
    },
    sys_series: { title: 'Series', what: 'Series that the agent keeps for the process.' },
    sys_segment: { title: 'Segment', what: 'Shared memory through which the program hands its records to the agent.' },
    sys_thread_state: { title: 'State of the thread', what: 'As the kernel gave it at the last reading.' },
    sys_thread_cpu: { title: 'CPU of the thread', what: 'CPU time per time: 100 % is one core all the time.', how: 'From /proc/PID/task, in the newest step of the range.' },
    sys_voluntary: { title: 'Voluntary switches', what: 'How often per second the thread gave up its CPU to wait for something.' },
    sys_involuntary: { title: 'Involuntary switches', what: 'How often per second the thread had to give up its CPU to others. Many mean that CPUs are short.' },
    sys_last_cpu: { title: 'Last CPU', what: 'The CPU that the thread ran on last.' },
    sys_per_cpu: { title: 'Each CPU', what: 'Share of time in which the CPU was not idle.', how: 'From /proc/stat, every second.' },
    sys_memory: { title: 'Memory of the machine', what: 'Available: what programs can get without swapping. Cached: files in memory, most of which can be dropped.', how: 'From /proc/meminfo.' },
    sys_full: { title: 'Pressure, all tasks', what: 'Share of time in which every task that had something to do waited for this resource.', how: 'The kernel\'s pressure stall information, /proc/pressure.' },
    sys_filesystem: { title: 'Free space', what: 'Space on file systems that users can have.' },
    sys_tasks: { title: 'Threads of the machine', what: 'Threads that run or wait for a CPU, and threads that wait for a disk.' },
    sys_operations: { title: 'Disk operations', what: 'Reads and writes that disks completed per second.' },
    sys_net_errors: { title: 'Network errors', what: 'Packets per second that were dropped or had errors, all interfaces together.' },
    sys_process_memory: {
        title: 'Memory of the process',
        what: 'Resident: in RAM, files mapped into it included. Shared: the part of it that is backed by files or shared. Proportional: pages that n processes share count as 1/n.',
        how: 'From /proc/PID; proportional memory is read less often.',
    },
    sys_io: { title: 'I/O through system calls', what: 'Bytes per second that went through read and write, of files, pipes and sockets.', how: 'From /proc/PID/io.' },
    sys_storage: { title: 'I/O to storage', what: 'Bytes per second that were really read from, or have to be written to, storage.', how: 'From /proc/PID/io.' },
    sys_threads: { title: 'Threads by state', what: 'How many threads of the process run, sleep or wait for a disk.' },
});

// ---- tiles --------------------------------------------------------------------------------------

const MACHINE: readonly TileSpec[] = [
    {
        label: 'CPU', metric: 'host_cpu', page: 'system', for: 'all', values: ['sonde_host_cpu_utilization_ratio', 'sonde_host_cpus'],
        show(t, f) {
            t.value = percent(f.now('sonde_host_cpu_utilization_ratio'));
            const cpus = f.newest('sonde_host_cpus');
            t.note = cpus ? `of ${count(cpus)} ${cpus === 1 ? 'CPU' : 'CPUs'}` : '';
            t.spark = [{ values: f.spark('sonde_host_cpu_utilization_ratio'), color: 's1' }];
        },
    },
    {
        label: 'Memory available', metric: 'host_memory', page: 'system', for: 'all', values: ['sonde_host_memory_available_bytes', 'sonde_host_memory_total_bytes'],
        show(t, f) {
            t.value = bytes(f.now('sonde_host_memory_available_bytes'));
            t.note = `of ${bytes(f.newest('sonde_host_memory_total_bytes'))}`;
            t.spark = [{ values: f.spark('sonde_host_memory_available_bytes'), color: 's7' }];
        },
    },
    {
        label: 'Load', metric: 'load', page: 'system', for: 'all', values: ['sonde_host_load1', 'sonde_host_load5', 'sonde_host_load15'],
        show(t, f) {
            const load = f.now('sonde_host_load1');
            t.value = load === null ? '–' : digits(load);
            const l5 = f.now('sonde_host_load5');
            const l15 = f.now('sonde_host_load15');
            t.note = l5 === null || l15 === null ? '' : `5 min ${digits(l5)}, 15 min ${digits(l15)}`;
            t.spark = [{ values: f.spark('sonde_host_load1'), color: 's2' }];
        },
    },
    {
        label: 'CPU pressure', metric: 'pressure', page: 'system', for: 'all', values: ['sonde_host_pressure_some_seconds_total'],
        show(t, f) {
            const of = (resource: string) => ({ labels: [['resource', resource]] as const });
            t.value = percent(f.now('sonde_host_pressure_some_seconds_total', of('cpu')));
            t.note = `memory ${percent(f.now('sonde_host_pressure_some_seconds_total', of('memory')))}, I/O ${percent(f.now('sonde_host_pressure_some_seconds_total', of('io')))}`;
            t.spark = [{ values: f.spark('sonde_host_pressure_some_seconds_total', of('cpu')), color: 's8' }];
        },
    },
    {
        label: 'Disks', metric: 'disk', page: 'system', for: 'all', values: ['sonde_host_disk_read_bytes_total', 'sonde_host_disk_written_bytes_total'],
        show(t, f) {
            t.parts = [
                { name: 'read', text: rate(f.now('sonde_host_disk_read_bytes_total'), 'bytes') },
                { name: 'written', text: rate(f.now('sonde_host_disk_written_bytes_total'), 'bytes') },
            ];
            t.spark = [
                { values: f.spark('sonde_host_disk_read_bytes_total'), color: 's1' },
                { values: f.spark('sonde_host_disk_written_bytes_total'), color: 's2' },
            ];
        },
    },
    {
        label: 'Network', metric: 'network', page: 'system', for: 'all', values: ['system_network_bytes_received_total', 'system_network_bytes_sent_total'],
        show(t, f) {
            t.parts = [
                { name: 'received', text: rate(f.now('system_network_bytes_received_total'), 'bytes') },
                { name: 'sent', text: rate(f.now('system_network_bytes_sent_total'), 'bytes') },
            ];
            t.spark = [
                { values: f.spark('system_network_bytes_received_total'), color: 's1' },
                { values: f.spark('system_network_bytes_sent_total'), color: 's2' },
            ];
        },
    },
];

// ---- charts -------------------------------------------------------------------------------------

const BUSY = 'mode:user|nice|system|irq|softirq|steal';

function machineCharts(): HTMLElement {
    return grid(
        chart({ heading: 'CPU by mode', name: 'sonde_host_cpu_all_seconds_total', label: 'mode:user|nice|system|iowait|irq|softirq|steal', group: 'mode', stack: true, unit: 'cores', metric: 'host_cpu' }),
        chart({ heading: 'Each CPU', name: 'sonde_host_cpu_seconds_total', label: BUSY, group: 'cpu', unit: 'ratio', metric: 'sys_per_cpu', max: 1, most: 64 }),
        chart({
            heading: 'Memory', name: 'sonde_host_memory_total_bytes sonde_host_memory_available_bytes sonde_host_memory_cached_bytes sonde_host_memory_free_bytes',
            names: 'sonde_host_memory_total_bytes=total;sonde_host_memory_available_bytes=available;sonde_host_memory_cached_bytes=cached;sonde_host_memory_free_bytes=free',
            unit: 'bytes', metric: 'sys_memory',
        }),
        chart({
            heading: 'Load', name: 'sonde_host_load1 sonde_host_load5 sonde_host_load15', unit: '', metric: 'load',
            names: 'sonde_host_load1=1 minute;sonde_host_load5=5 minutes;sonde_host_load15=15 minutes',
        }),
        chart({ heading: 'Pressure: some wait', name: 'sonde_host_pressure_some_seconds_total', group: 'resource', unit: 'ratio', metric: 'pressure', empty: 'This kernel has no /proc/pressure.' }),
        chart({ heading: 'Pressure: all wait', name: 'sonde_host_pressure_full_seconds_total', group: 'resource', unit: 'ratio', metric: 'sys_full', empty: 'This kernel has no /proc/pressure.' }),
        chart({
            heading: 'Disk', name: 'sonde_host_disk_read_bytes_total sonde_host_disk_written_bytes_total', group: 'device', unit: 'bytes/s', metric: 'disk',
            names: 'sonde_host_disk_read_bytes_total=read;sonde_host_disk_written_bytes_total=written', empty: 'No disk is seen.',
        }),
        chart({ heading: 'Disk busy', name: 'sonde_host_disk_io_time_seconds_total', group: 'device', unit: 'ratio', metric: 'disk_busy', empty: 'No disk is seen.' }),
        chart({
            heading: 'Disk operations', name: 'sonde_host_disk_reads_completed_total sonde_host_disk_writes_completed_total', unit: '/s', metric: 'sys_operations',
            names: 'sonde_host_disk_reads_completed_total=reads;sonde_host_disk_writes_completed_total=writes', empty: 'No disk is seen.',
        }),
        chart({ heading: 'Free space', name: 'sonde_host_filesystem_avail_bytes', group: 'mountpoint', unit: 'bytes', metric: 'sys_filesystem' }),
        chart({
            heading: 'Network', name: 'sonde_host_network_receive_bytes_total sonde_host_network_transmit_bytes_total', group: 'device', unit: 'bytes/s', metric: 'network',
            names: 'sonde_host_network_receive_bytes_total=received;sonde_host_network_transmit_bytes_total=sent',
        }),
        chart({
            heading: 'Network errors and drops', unit: '/s', metric: 'sys_net_errors',
            name: 'sonde_host_network_receive_errors_total sonde_host_network_receive_drops_total sonde_host_network_transmit_errors_total sonde_host_network_transmit_drops_total',
            names: 'sonde_host_network_receive_errors_total=receive errors;sonde_host_network_receive_drops_total=receive drops;sonde_host_network_transmit_errors_total=send errors;sonde_host_network_transmit_drops_total=send drops',
        }),
        chart({
            heading: 'Running and blocked threads', name: 'sonde_host_procs_running sonde_host_procs_blocked', unit: '', metric: 'sys_tasks',
            names: 'sonde_host_procs_running=running or ready;sonde_host_procs_blocked=waiting for a disk',
        }),
        chart({ heading: 'Context switches', name: 'sonde_host_context_switches_total', unit: '/s', metric: 'switches' }),
    );
}

function processCharts(): HTMLElement {
    return grid(
        chart({ heading: 'CPU', name: 'sonde_process_cpu_seconds_total', group: 'mode', stack: true, unit: 'cores', metric: 'cpu' }),
        chart({ heading: 'CPU by thread', name: 'sonde_thread_cpu_seconds_total', group: 'name tid', unit: 'cores', metric: 'sys_thread_cpu' }),
        chart({
            heading: 'Memory', name: 'sonde_process_resident_memory_bytes sonde_process_shared_memory_bytes sonde_process_proportional_memory_bytes sonde_process_swap_memory_bytes',
            names: 'sonde_process_resident_memory_bytes=resident;sonde_process_shared_memory_bytes=shared;sonde_process_proportional_memory_bytes=proportional;sonde_process_swap_memory_bytes=swapped out',
            unit: 'bytes', metric: 'sys_process_memory',
        }),
        chart({ heading: 'Page faults', name: 'sonde_process_page_faults_total', group: 'type', unit: '/s', metric: 'faults' }),
        chart({ heading: 'Open files', name: 'sonde_process_open_fds', unit: '', whole: true, metric: 'sys_fds' }),
        chart({ heading: 'Threads by state', name: 'sonde_process_thread_states', group: 'state', stack: true, whole: true, unit: '', metric: 'sys_threads' }),
        chart({ heading: 'I/O through system calls', name: 'sonde_process_io_bytes_total', group: 'direction', unit: 'bytes/s', metric: 'sys_io', empty: 'Not permitted, or the process did none.' }),
        chart({ heading: 'I/O to storage', name: 'sonde_process_storage_bytes_total', group: 'direction', unit: 'bytes/s', metric: 'sys_storage', empty: 'Not permitted, or the process did none.' }),
        chart({ heading: 'Context switches', name: 'sonde_process_context_switches_total', group: 'type', unit: '/s', metric: 'switches' }),
    );
}

// ---- tables -------------------------------------------------------------------------------------

function isOpen(p: ProcessRow): boolean {
    return state.get('pid') === String(p.pid);
}

function toggle(p: ProcessRow): Record<string, string | null> {
    return { pid: isOpen(p) ? null : String(p.pid) };
}

function processTable(): Table<ProcessRow> {
    return new Table<ProcessRow>('Processes', [
        { id: 'program', title: 'Program', value: (p) => p.program, cell: (p) => make('a', { href: state.link('system', toggle(p)), 'aria-label': `${isOpen(p) ? 'Close' : 'Open'} ${p.program}, process ${p.pid}` }, p.program) },
        { id: 'pid', title: 'PID', number: true, value: (p) => p.pid, cell: (p) => String(p.pid) },
        { id: 'state', title: 'State', metric: 'sys_state', value: (p) => p.state, cell: (p) => p.ended ? `${p.state} ${clock(p.ended)}` : p.state },
        { id: 'cpu', title: 'CPU', number: true, metric: 'sys_cpu', value: (p) => p.cpu_ratio, cell: (p) => percent(p.cpu_ratio) },
        { id: 'rss', title: 'Memory', number: true, metric: 'rss', value: (p) => p.rss_bytes, cell: (p) => bytes(p.rss_bytes) },
        { id: 'threads', title: 'Threads', number: true, metric: 'threads', value: (p) => p.threads, cell: (p) => count(p.threads) },
        { id: 'fds', title: 'Files', number: true, metric: 'sys_fds', value: (p) => p.fds, cell: (p) => count(p.fds) },
        { id: 'started', title: 'Started', number: true, metric: 'sys_started', value: (p) => p.started, cell: (p) => p.started === null ? '–' : clock(p.started) },
        { id: 'series', title: 'Series', number: true, metric: 'sys_series', value: (p) => p.series, cell: (p) => count(p.series) },
        { id: 'dropped', title: 'Dropped', number: true, metric: 'sys_drops', value: (p) => p.dropped, cell: (p) => count(p.dropped) },
    ], {
        key: (p) => `${p.pid} ${p.program}`, sort: { column: 'cpu', descending: true }, stateKey: 'sort', current: isOpen,
        open: (p) => state.queryFor(toggle(p)),
    });
}

function threadTable(): Table<ThreadRow> {
    return new Table<ThreadRow>('Threads', [
        { id: 'name', title: 'Thread', value: (t) => t.name, cell: (t) => t.tid === 'other' ? 'all others' : t.name },
        { id: 'tid', title: 'TID', number: true, value: (t) => Number(t.tid), cell: (t) => t.tid },
        { id: 'state', title: 'State', metric: 'sys_thread_state', value: (t) => t.state, cell: (t) => t.state || '–' },
        { id: 'cpu', title: 'CPU', number: true, metric: 'sys_thread_cpu', value: (t) => t.cpu, cell: (t) => percent(t.cpu) },
        { id: 'user', title: 'user', number: true, metric: 'sys_thread_cpu', value: (t) => t.user, cell: (t) => percent(t.user) },
        { id: 'system', title: 'system', number: true, metric: 'sys_thread_cpu', value: (t) => t.system, cell: (t) => percent(t.system) },
        { id: 'voluntary', title: 'Waits', number: true, metric: 'sys_voluntary', value: (t) => t.voluntary, cell: (t) => rate(t.voluntary) },
        { id: 'involuntary', title: 'Preempted', number: true, metric: 'sys_involuntary', value: (t) => t.involuntary, cell: (t) => rate(t.involuntary) },
        { id: 'last_cpu', title: 'Last CPU', number: true, metric: 'sys_last_cpu', value: (t) => t.lastCpu, cell: (t) => count(t.lastCpu) },
    ], { key: (t) => t.tid, sort: { column: 'cpu', descending: true }, stateKey: 'threads' });
}

// ---- the page -----------------------------------------------------------------------------------

class SystemPage {
    private readonly api: Api = apiAt('');
    private readonly process = make('div', { class: 'stack' });
    private readonly nothing = make('div');
    private readonly list = processTable();
    private readonly threads = threadTable();
    private readonly facts = new Facts();
    private readonly machine: TileSet;
    private readonly costs: TileSet;
    private readonly following: Following;
    private readonly ends: (() => void)[] = [];
    private handles: Handle[] = [];
    private processes: Processes | null = null;
    private shownPid: string | null = null;
    private range = '';
    private drawing = 0;

    constructor(root: HTMLElement) {
        this.machine = new TileSet(this.api, MACHINE);
        this.costs = new TileSet(this.api, TILES.filter((t) => t.for === 'sonde'));
        this.costs.element.classList.add('few');
        const stack = make('div', { class: 'stack' }, this.machine.element,
            card('Processes', {}, this.list.element, this.nothing), this.process,
            heading('Machine'), machineCharts(),
            heading('What sonde itself costs'), this.costs.element,
            grid(
                chart({ heading: 'CPU of the agent', name: 'sonde_agent_cpu_seconds_total', unit: 'ratio', metric: 'sonde_cpu' }),
                chart({ heading: 'Memory of the agent', name: 'sonde_agent_memory_bytes', unit: 'bytes', metric: 'sonde_memory' }),
            ));
        root.append(stack);
        this.following = follow(stack);
        this.ends.push(() => this.following.end(), () => this.machine.end(), () => this.costs.end(), () => this.close());
        this.ends.push(state.on('*', () => { this.load(); this.draw(); }));
        this.load();
        void this.start();
    }

    end(): void {
        for (const f of this.ends) f();
    }

    private close(): void {
        for (const h of this.handles) h.close();
        cancelAnimationFrame(this.drawing);
    }

    private async start(): Promise<void> {
        try {
            this.take(await this.api.get<Processes>('/api/processes'));
        } catch (e) {
            clear(this.nothing, failed(e, () => void this.start()));
            return;
        }
        if (isFrozen()) return;
        const stream = live(this.api, { events: ['processes'] }, { processes: (p) => this.take(p) });
        this.ends.push(() => stream.close());
    }

    private take(p: Processes): void {
        this.processes = p;
        this.draw();
    }

    private load(): void {
        const range = rangeText();
        if (range === this.range) return;
        this.range = range;
        const before = this.handles;
        const board = boardOf(this.api, range);
        this.handles = [board.use({
            names: ['sonde_process_start_time_seconds', 'sonde_process_open_fds', 'sonde_thread_cpu_seconds_total',
                'sonde_thread_context_switches_total', 'sonde_thread_state', 'sonde_thread_last_cpu'],
        }, ['value', 'last'], () => this.draw())];
        for (const h of before) h.close();
    }

    private readings(): Reading[] {
        // Threads that have ended have no newest value: a few steps back is old enough.
        return this.handles.flatMap((h) => h.tracks()).map((t) => ({
            name: t.name, labels: t.labels, pid: t.pid, value: t.newest('value', 5), last: t.newest('last', 5),
        }));
    }

    private draw(): void {
        if (this.drawing) return;
        this.drawing = requestAnimationFrame(() => {
            this.drawing = 0;
            if (this.processes) this.show(this.processes);
        });
    }

    private show(processes: Processes): void {
        const readings = this.readings();
        const filter = state.get('process');
        const all = processesOf(processes.processes, readings);
        this.list.show(all.filter((p) => !filter || p.program === filter));
        const pid = state.get('pid');
        const p = all.find((x) => String(x.pid) === pid) ?? null;
        if (!all.length) {
            if (!this.nothing.hasChildNodes()) {
                clear(this.nothing, empty('No process is watched', 'Start a program under the agent, or attach to one that runs.', 'sonde run -- ./program\nsonde attach PID'));
            }
        } else this.nothing.replaceChildren();
        this.list.element.hidden = !all.length;
        this.open(pid, p);
        if (!p) return;
        this.facts.show([
            { name: 'State', value: p.state, metric: 'sys_state' },
            { name: 'Started', value: p.started === null ? '–' : clock(p.started), note: p.started === null ? '' : since(p.started, now()), metric: 'sys_started' },
            { name: 'CPU', value: percent(p.cpu_ratio), note: 'of one core', metric: 'sys_cpu' },
            { name: 'Resident memory', value: bytes(p.rss_bytes), metric: 'rss' },
            { name: 'Threads', value: count(p.threads), metric: 'threads' },
            { name: 'Open files', value: count(p.fds), metric: 'sys_fds' },
            { name: 'Segment', value: bytes(p.segment_bytes), note: `${count(p.series)} series`, metric: 'sys_segment' },
            { name: 'Dropped', value: count(p.dropped), note: dropsText(p), metric: 'sys_drops' },
        ]);
        this.threads.show(threadsOf(readings, p.pid));
    }

    // The process that the address names, between the list and the machine.
    private open(pid: string | null, p: ProcessRow | null): void {
        const key = pid === null ? null : `${pid} ${p ? p.program : ''}`;
        if (key === this.shownPid) return;
        this.shownPid = key;
        if (pid === null) {
            this.process.replaceChildren();
            return;
        }
        const close = pageLink('Close', 'system', { pid: null });
        if (!p) {
            clear(this.process, heading(`Process ${pid}`, close), empty('This process is not watched', 'It ended a while ago, or is another agent\'s. Curves below may still have it.'), processCharts());
        } else {
            clear(this.process,
                heading(`${p.program} (${p.pid})`, make('span', { class: 'links' },
                    pageLink('CPU flame graph', 'cpu', { pid }), pageLink('Memory', 'memory', { pid }), close)),
                card('Now', {}, this.facts.element), card('Threads', {}, this.threads.element), processCharts());
        }
        this.following.apply(this.process);
    }
}

function dropsText(p: ProcessRow): string {
    const parts = Object.entries(p.drops).filter(([, n]) => n > 0).map(([reason, n]) => `${reason} ${count(n)}`);
    if (p.spans_lost) parts.push(`spans ${count(p.spans_lost)}`);
    return parts.join(', ');
}

export const page: Page = {
    id: 'system',
    title: 'System',
    icon: 'M3 12h4l2-6 4 13 3-9 1.500 2H21',
    keys: [],
    render(root) {
        const p = new SystemPage(root);
        return () => p.end();
    },
};
