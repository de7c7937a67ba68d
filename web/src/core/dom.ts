// The few calls that make elements. Text is always text: nothing here parses HTML.

export type Attributes = Record<string, string | number | boolean | null | undefined>;
export type Child = Node | string | null | undefined;

function setAttributes(e: Element, attrs: Attributes): void {
    for (const [k, v] of Object.entries(attrs)) {
        if (v === null || v === undefined || v === false) continue;
        e.setAttribute(k, v === true ? '' : String(v));
    }
}

function append(e: Element, children: Child[]): void {
    for (const c of children) if (c !== null && c !== undefined) e.append(c);
}

export function make<K extends keyof HTMLElementTagNameMap>(
    tag: K, attrs: Attributes = {}, ...children: Child[]
): HTMLElementTagNameMap[K] {
    const e = document.createElement(tag);
    setAttributes(e, attrs);
    append(e, children);
    return e;
}

// An element that is not in TypeScript's list: one of ours.
export function makeCustom(tag: string, attrs: Attributes = {}, ...children: Child[]): HTMLElement {
    const e = document.createElement(tag);
    setAttributes(e, attrs);
    append(e, children);
    return e;
}

const SVG = 'http://www.w3.org/2000/svg';

export function svg<K extends keyof SVGElementTagNameMap>(
    tag: K, attrs: Attributes = {}, ...children: Child[]
): SVGElementTagNameMap[K] {
    const e = document.createElementNS(SVG, tag);
    setAttributes(e, attrs);
    append(e, children);
    return e;
}

// A line icon of 24 by 24 from path data, in the text's colour.
export function icon(path: string, size = 18, width = 1.8): SVGSVGElement {
    return svg('svg', {
        viewBox: '0 0 24 24', width: size, height: size, fill: 'none', stroke: 'currentColor',
        'stroke-width': width, 'stroke-linecap': 'round', 'stroke-linejoin': 'round',
        'aria-hidden': 'true', focusable: 'false',
    }, svg('path', { d: path }));
}

export function button(
    text: string, title: string, onClick: () => void, attrs: Attributes = {},
): HTMLButtonElement {
    const b = make('button', { type: 'button', title: title || null, ...attrs }, text);
    b.addEventListener('click', onClick);
    return b;
}

export function clear(e: Element, ...children: Child[]): void {
    e.replaceChildren();
    append(e, children);
}

const FOCUSABLE = 'a[href], button, input, select, textarea, summary, [tabindex]';

// Runs a change that moves or makes anew what is in the box. What had the focus there has it again, or
// what took its place.
export function keepFocus(box: Element, change: () => void): void {
    const root = box.getRootNode() as Document | ShadowRoot;
    const had = root.activeElement;
    if (!(had instanceof HTMLElement) || had === box || !box.contains(had)) {
        change();
        return;
    }
    const all = () => [...box.querySelectorAll<HTMLElement>(FOCUSABLE)];
    const at = all().indexOf(had);
    change();
    const next = had.isConnected ? had : all()[at];
    if (next && next !== root.activeElement) next.focus({ preventScroll: true });
}

// A listener that its return value removes.
export function listen<K extends keyof WindowEventMap>(
    target: Window, name: K, f: (e: WindowEventMap[K]) => void): () => void;
export function listen<K extends keyof DocumentEventMap>(
    target: Document, name: K, f: (e: DocumentEventMap[K]) => void): () => void;
export function listen<T extends Event>(
    target: EventTarget, name: string, f: (e: T) => void): () => void;
export function listen(target: EventTarget, name: string, f: (e: never) => void): () => void {
    target.addEventListener(name, f as EventListener);
    return () => target.removeEventListener(name, f as EventListener);
}
