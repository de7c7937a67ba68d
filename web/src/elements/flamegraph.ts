// <sonde-flamegraph>: a profile as a flame graph, with its functions, callers and callees.
//
//   <sonde-flamegraph from="1794800000" to="1794800060" phase="decode"></sonde-flamegraph>
//   <sonde-flamegraph profile="baseline" base="optimized"></sonde-flamegraph>
//   <sonde-flamegraph><script type="application/json">{ "version": 1, … }</script></sonde-flamegraph>
//
// Attributes that choose what is asked for are those of GET /api/flamegraph (source.ts); `base` is a
// time, FROM..TO, "rest", or the name of a kept profile. What is shown of it: view, invert, fold,
// order, search, regex, colors, focus. `fill` takes the height of what it is in, and the wheel zooms.
//
// Events: sonde-focus {path}, sonde-look {view, invert, …}, sonde-type {type}.

import { SondeElement, define } from '../core/element';
import { isFrozen } from '../core/frozen';
import { onTheme } from '../core/theme';
import { Raw } from '../flame/data';
import { decodePath, encodePath } from '../flame/splice';
import css from './flamegraph/flamegraph.css';
import { ATTRIBUTES, AgentSource, DataSource, SavedSource, paramsOf } from './flamegraph/source';
import { Look, VIEWS, View } from './flamegraph/state';
import { FlameView } from './flamegraph/view';

const LOOK = ['view', 'invert', 'fold', 'order', 'search', 'regex', 'colors', 'focus'];

export class SondeFlamegraph extends SondeElement {
    static readonly observedAttributes = [...ATTRIBUTES, ...LOOK, 'base-from', 'base-to', 'base-profile'];
    private flame: FlameView | null = null;
    private given: Raw | null = null;
    private asked = '';
    private telling = false;

    constructor() {
        super(css);
    }

    /** Data instead of an agent: what /api/flamegraph answers. */
    set data(raw: Raw) {
        this.given = raw;
        this.asked = '';
        this.plan();
    }

    connectedCallback(): void {
        super.connectedCallback();
        this.onEnd(onTheme(() => this.flame?.applyColors()));
    }

    disconnectedCallback(): void {
        super.disconnectedCallback();
        this.flame?.end();
        this.asked = '';
    }

    attributeChangedCallback(name: string, before: string | null, after: string | null): void {
        if (!this.telling) super.attributeChangedCallback(name, before, after);
    }

    /** Asks again, for the same. */
    refresh(): void {
        this.asked = '';
        this.plan();
    }

    focusSearch(): void {
        this.flame?.focusSearch();
    }

    /** A key that was pressed elsewhere on the page. */
    key(e: KeyboardEvent): void {
        this.flame?.key(e);
    }

    private make(): FlameView {
        const fill = this.hasAttribute('fill');
        const view = new FlameView({
            changed: () => this.tell(),
            kind: (type) => {
                this.setAttribute('type', type);
                this.emit('sonde-type', { type });
            },
            focused: (path) => {
                this.tell();
                this.emit('sonde-focus', { path });
            },
        }, {
            fill, wheel: fill ? 'zoom' : 'scroll', level: this.number('level') ?? 2,
            rootOnTop: this.hasAttribute('icicle') ? true : null,
        });
        this.root.append(view.element);
        return view;
    }

    private lookOf(): Look {
        const on = (name: string) => this.hasAttribute(name) && this.getAttribute(name) !== '0';
        const view = this.text('view', 'flame') as View;
        return {
            view: VIEWS.some(([v]) => v === view) ? view : 'flame',
            invert: on('invert'), fold: on('fold'), order: this.text('order') === 'weight' ? 'weight' : 'name',
            search: this.text('search'), regex: on('regex'), colors: this.text('colors'),
            focus: decodePath(this.text('focus')),
        };
    }

    /** What a person changed is written back, so that attributes always say what is shown. */
    private tell(): void {
        const { look } = this.flame!;
        const flag = (on: boolean) => (on ? '' : null);
        const values: Record<string, string | null> = {
            view: look.view === 'flame' ? null : look.view, invert: flag(look.invert), fold: flag(look.fold),
            order: look.order === 'name' ? null : look.order, search: look.search || null, regex: flag(look.regex),
            colors: look.colors || null, focus: encodePath(look.focus) || null,
        };
        this.telling = true;
        for (const [name, value] of Object.entries(values)) {
            if (value === null) this.removeAttribute(name);
            else if (this.getAttribute(name) !== value) this.setAttribute(name, value);
        }
        this.telling = false;
        this.emit('sonde-look', { ...look });
    }

    protected update(): void {
        const first = this.flame === null;
        const view = this.flame ??= this.make();
        const script = this.querySelector('script[type="application/json"]');
        const params = paramsOf(this);
        const moving = !this.hasAttribute('from') && !this.hasAttribute('profile') && !this.text('range').includes('..');
        const key = this.given || script ? 'data'
            : JSON.stringify([this.api.base, { ...params, ...(moving ? { from: 0, to: this.text('range') } : {}) }]);
        if (first) Object.assign(view.look, this.lookOf());
        if (key === this.asked) {
            view.set(this.lookOf());
            return;
        }
        if (!first) Object.assign(view.look, this.lookOf());
        this.asked = key;
        view.setSource(this.given ? new DataSource(this.given) : script ? new DataSource(script.textContent ?? '')
            : isFrozen() ? new SavedSource(params) : new AgentSource(this.api, params), !first);
    }
}

define('sonde-flamegraph', SondeFlamegraph);
