// A button with a list of actions.

import { button, make } from '../core/dom';
import { popover } from './popover';

export interface Action {
    text: () => string;
    run: () => void;
    hide?: () => boolean;
    stay?: boolean; // the list stays open
}

export function menu(name: string, face: Node, actions: readonly Action[]): HTMLElement {
    const anchor = button('', name, () => {}, { class: 'icon', 'aria-label': name });
    anchor.append(face);
    const p = popover(anchor, name, (box, close) => {
        box.classList.add('menu');
        const list = make('ul');
        for (const a of actions) {
            if (a.hide?.()) continue;
            const b = button(a.text(), '', () => {
                if (!a.stay) close();
                a.run();
                b.textContent = a.text();
            });
            list.append(make('li', {}, b));
        }
        box.append(list);
        box.addEventListener('keydown', (e) => {
            if (e.key !== 'ArrowDown' && e.key !== 'ArrowUp') return;
            e.preventDefault();
            const all = [...box.querySelectorAll('button')];
            const at = all.indexOf(e.target as HTMLButtonElement);
            all[(at + (e.key === 'ArrowDown' ? 1 : all.length - 1)) % all.length]?.focus();
        });
    });
    return p.element;
}
