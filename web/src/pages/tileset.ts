// Tiles of a page, fed by the series of the page's range and by what the page last heard of.

import { Api } from '../core/api';
import { Handle, boardOf } from '../core/board';
import { make, makeCustom } from '../core/dom';
import { state } from '../core/state';
import { Inference } from '../core/types';
import { Tile } from '../elements/tile';
import { TileSpec } from './dashboard_tiles';
import { Figures } from './figures';
import { rangeText } from './kit';

export class TileSet {
    readonly element = make('div', { class: 'tiles' });
    inference: Inference | null = null;
    private readonly made = new Map<TileSpec, Tile>();
    private readonly off: () => void;
    private handles: Handle[] = [];
    private figures: Figures | null = null;
    private drawing = 0;

    constructor(private readonly api: Api, specs: readonly TileSpec[]) {
        for (const spec of specs) {
            const tile = makeCustom('sonde-tile', {
                label: spec.label, metric: spec.metric, class: spec.wide ? 'wide' : null, href: this.href(spec),
            }) as Tile;
            this.made.set(spec, tile);
            this.element.append(tile);
        }
        this.off = state.on('*', () => this.load());
        this.load();
    }

    end(): void {
        this.off();
        for (const h of this.handles) h.close();
        cancelAnimationFrame(this.drawing);
    }

    private href(spec: TileSpec): string | null {
        return spec.page === state.page() ? null : state.link(spec.page);
    }

    private load(): void {
        const before = this.handles;
        const specs = [...this.made.keys()];
        const names = (of: (s: TileSpec) => readonly string[]) => [...new Set(specs.flatMap((s) => [...of(s)]))];
        const board = boardOf(this.api, rangeText());
        const changed = () => this.draw();
        this.handles = [board.use({ names: names((s) => s.values) }, ['value'], changed)];
        const histograms = names((s) => s.percentiles ?? []);
        if (histograms.length) this.handles.push(board.use({ names: histograms }, ['p50', 'p95', 'p99'], changed));
        const handles = this.handles;
        this.figures = new Figures(board, () => handles.flatMap((h) => h.tracks()), {
            process: state.get('process'), pid: state.get('pid'), model: state.get('model'), route: state.get('route'),
        });
        for (const [spec, tile] of this.made) {
            const href = this.href(spec);
            if (href) tile.setAttribute('href', href);
        }
        for (const h of before) h.close();
        this.draw();
    }

    draw(): void {
        if (this.drawing) return;
        this.drawing = requestAnimationFrame(() => {
            this.drawing = 0;
            const f = this.figures;
            if (!f || !this.handles.every((h) => h.loaded())) return;
            f.inference = this.inference;
            for (const [spec, tile] of this.made) spec.show(tile, f);
        });
    }
}
