// One chart, and what is asked for when it is zoomed into where something was left out.

import { ChartEvents, FlameChart, Spot } from '../../flame/chart';
import { Profile, Tree } from '../../flame/data';
import { namesOf, findPath } from '../../flame/splice';
import { make } from '../../core/dom';

/** Makes the part at `names` finer. false: nothing came. */
export type Finer = (names: string[]) => Promise<boolean>;

const WORTH_PX = 6; // what was left out must be as wide as this to be asked for

export interface PaneEvents {
    zoomed(): void;
    hovered(at: Spot | null, x: number, y: number): void;
    selected(n: number): void;
    opened(n: number): void;
    moved(): void;
}

export class Pane {
    readonly chart: FlameChart;
    readonly canvas: HTMLCanvasElement;
    finer: Finer | null = null;
    private asked = new Set<string>();

    constructor(name: string, label: string, rootOnTop: boolean, events: PaneEvents) {
        this.canvas = make('canvas', { class: name, role: 'application', 'aria-label': label,
            'aria-roledescription': 'flame graph' });
        const on: ChartEvents = { ...events, rested: () => this.rested() };
        this.chart = new FlameChart(this.canvas, on, rootOnTop);
    }

    get p(): Profile {
        return this.chart.p;
    }
    get tree(): Tree {
        return this.chart.tree;
    }

    /** Another tree; finer: what makes a part of it finer. */
    show(p: Profile, tree: Tree, finer: Finer | null): void {
        this.finer = finer;
        this.asked = new Set(['']);
        this.chart.setTree(p, tree);
    }

    /** The same stacks in more detail: the part in sight stays. */
    replace(p: Profile, tree: Tree): void {
        const { chart } = this;
        const at = (n: number) => (n < 0 ? -1 : findPath(p, tree, namesOf(chart.p, chart.tree, n)));
        chart.setTree(p, tree, { zoom: at(chart.zoom), cursor: at(chart.cursor) });
    }

    focus(): string[] {
        return this.chart.tree ? namesOf(this.chart.p, this.chart.tree, this.chart.zoom) : [];
    }

    private rested(): void {
        const { chart } = this;
        if (!this.finer || !chart.tree) return;
        const [from, to] = chart.view;
        if (chart.layout.cutBetween(from, to) < WORTH_PX * chart.pixel) return;
        const names = namesOf(chart.p, chart.tree, chart.layout.covering(from, to));
        const key = names.join('\0');
        if (this.asked.has(key)) return;
        this.asked.add(key);
        void this.finer(names).then((came) => {
            if (!came) this.asked.delete(key);
            else this.rested(); // there may be more of it
        }, () => this.asked.delete(key));
    }
}
