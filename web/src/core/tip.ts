// One tooltip for all: shown on hover and focus, moved by nothing, closed by Escape. What it says is
// made when it is shown.

import { make } from './dom';
import { adopt } from './sheet';
import { term } from './glossary';

const CSS = `
.sonde-tip { position: fixed; z-index: 2147483000; max-width: min(340px, calc(100vw - 16px)); padding: 8px 10px; pointer-events: none;
    background: var(--sonde-ink); color: var(--sonde-page); border-radius: 6px; font: 12px/1.45 var(--sonde-font, system-ui, sans-serif);
    overflow-wrap: anywhere; }
.sonde-tip b { display: block; font-weight: 600; margin-bottom: 2px; }
.sonde-tip p { margin: 0; }
.sonde-tip p + p { margin-top: 4px; opacity: .78; }
.sonde-tip[hidden] { display: none; }
`;

let box: HTMLElement | null = null;
let owner: Element | null = null;

function tipBox(): HTMLElement {
    if (!box) {
        adopt(CSS);
        box = make('div', { class: 'sonde-tip', role: 'tooltip', hidden: true });
        document.body.append(box);
        window.addEventListener('keydown', (e) => { if (e.key === 'Escape') hideTip(); }, true);
        window.addEventListener('scroll', () => hideTip(), { capture: true, passive: true });
    }
    return box;
}

export function hideTip(of?: Element): void {
    if (of && of !== owner) return;
    owner = null;
    if (box) box.hidden = true;
}

export function showTip(at: DOMRect | { x: number; y: number }, of: Element, ...content: (Node | string)[]): void {
    const b = tipBox();
    owner = of;
    b.replaceChildren(...content);
    b.hidden = false;
    const rect = 'width' in at ? at : new DOMRect(at.x, at.y, 0, 0);
    const { width, height } = b.getBoundingClientRect();
    const x = Math.min(Math.max(8, rect.x + rect.width / 2 - width / 2), innerWidth - width - 8);
    const below = rect.bottom + 8;
    const y = below + height > innerHeight - 4 ? Math.max(4, rect.top - height - 8) : below;
    b.style.left = `${Math.round(x)}px`;
    b.style.top = `${Math.round(y)}px`;
}

export function tip(e: Element, content: () => (Node | string)[] | null): void {
    const show = () => {
        const c = content();
        if (c) showTip(e.getBoundingClientRect(), e, ...c);
    };
    const hide = () => hideTip(e);
    e.addEventListener('pointerenter', show);
    e.addEventListener('focus', show);
    e.addEventListener('pointerleave', hide);
    e.addEventListener('blur', hide);
}

// The tooltip of a glossary term; also for screen readers.
export function explain(e: Element, key: string): void {
    const t = term(key);
    if (!t) return;
    e.setAttribute('aria-description', t.how ? `${t.what} ${t.how}` : t.what);
    tip(e, () => [make('b', {}, t.title), make('p', {}, t.what), ...(t.how ? [make('p', {}, t.how)] : [])]);
}
