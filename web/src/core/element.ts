// What all our elements share: an open shadow root with style sheets, the agent they ask, and work
// that ends when they leave the page.

import { Api, apiOf } from './api';
import { sheet } from './sheet';
import { STATES_CSS } from './states';

const BASE_CSS = `
:host { display: block; box-sizing: border-box; color: var(--sonde-ink); font: 13px/1.45 var(--sonde-font, system-ui, sans-serif); }
:host([hidden]) { display: none; }
*, *::before, *::after { box-sizing: border-box; }
[hidden] { display: none !important; }
.sr { position: absolute; width: 1px; height: 1px; margin: -1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
`;

export abstract class SondeElement extends HTMLElement {
    protected readonly root: ShadowRoot;
    private readonly ends: (() => void)[] = [];
    private planned = false;

    constructor(css: string) {
        super();
        this.root = this.attachShadow({ mode: 'open' });
        this.root.adoptedStyleSheets = [sheet(BASE_CSS), sheet(STATES_CSS), sheet(css)];
    }

    protected get api(): Api {
        return apiOf(this);
    }

    // Called when the element enters a page, and after attributes changed: once, however many did.
    protected abstract update(): void;

    // Called at the next end of this stay on the page: close streams, remove listeners.
    protected onEnd(f: () => void): void {
        this.ends.push(f);
    }

    protected plan(): void {
        if (this.planned) return;
        this.planned = true;
        queueMicrotask(() => {
            this.planned = false;
            if (this.isConnected) this.update();
        });
    }

    connectedCallback(): void {
        this.plan();
    }

    disconnectedCallback(): void {
        for (const f of this.ends.splice(0)) f();
    }

    attributeChangedCallback(_name: string, before: string | null, after: string | null): void {
        if (before !== after) this.plan();
    }

    protected text(name: string, otherwise = ''): string {
        return this.getAttribute(name) ?? otherwise;
    }

    protected number(name: string): number | null {
        const t = this.getAttribute(name);
        if (t === null || t === '') return null;
        const v = Number(t);
        return Number.isFinite(v) ? v : null;
    }

    protected emit(name: string, detail: unknown): void {
        this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
    }
}

export function define(tag: string, of: CustomElementConstructor): void {
    if (!customElements.get(tag)) customElements.define(tag, of);
}
