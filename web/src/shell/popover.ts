// A box below a button, closed by Escape, by a click elsewhere, and by focus that leaves.

import { make } from '../core/dom';

export interface Popover { element: HTMLElement; open(): void; close(): void }

export function popover(anchor: HTMLButtonElement, name: string, fill: (box: HTMLElement, close: () => void) => void): Popover {
    const box = make('div', { class: 'popover', role: 'dialog', 'aria-label': name, hidden: true });
    const element = make('div', { class: 'anchor' }, anchor, box);
    anchor.setAttribute('aria-haspopup', 'dialog');
    anchor.setAttribute('aria-expanded', 'false');
    const outside = (e: Event) => {
        if (!e.composedPath().includes(element)) close(false);
    };
    const key = (e: KeyboardEvent) => {
        if (e.key !== 'Escape') return;
        e.stopPropagation();
        close(true);
    };
    function close(focus: boolean): void {
        if (box.hidden) return;
        box.hidden = true;
        anchor.setAttribute('aria-expanded', 'false');
        document.removeEventListener('pointerdown', outside, true);
        element.removeEventListener('keydown', key);
        if (focus) anchor.focus();
    }
    function open(): void {
        box.replaceChildren();
        fill(box, () => close(true));
        box.hidden = false;
        anchor.setAttribute('aria-expanded', 'true');
        // Inside the window, whatever side the button is on.
        box.style.removeProperty('right');
        box.style.removeProperty('left');
        const a = element.getBoundingClientRect();
        const width = box.getBoundingClientRect().width;
        if (a.left + width > innerWidth - 8) {
            const right = Math.min(0, a.right - width - 8);
            box.style.right = `${right}px`;
        } else {
            box.style.left = '0';
        }
        document.addEventListener('pointerdown', outside, true);
        element.addEventListener('keydown', key);
        box.querySelector<HTMLElement>('button, input, select, a')?.focus();
    }
    anchor.addEventListener('click', () => { if (box.hidden) open(); else close(false); });
    element.addEventListener('focusout', (e) => {
        if (e.relatedTarget instanceof Node && !element.contains(e.relatedTarget)) close(false);
    });
    return { element, open, close: () => close(false) };
}
