// All keys, and a few words on how to get from a curve to its cause.

import { button, make } from '../core/dom';
import { keyGroups } from '../core/keys';

function keyCaps(keys: string): HTMLElement {
    const e = make('span', { class: 'keys' });
    keys.split(' | ').forEach((way, i) => {
        if (i) e.append(' or ');
        for (const part of /^(drag|double click|Shift\+drag)$/.test(way) ? [way] : way.split(' ')) e.append(make('kbd', {}, part));
    });
    return e;
}

export function helpDialog(): void {
    if (document.querySelector('dialog.help')) return;
    const dialog = make('dialog', { class: 'help', 'aria-label': 'Help' });
    const close = button('Close', 'Esc', () => dialog.close());
    const groups = make('div', { class: 'groups' });
    for (const g of keyGroups()) {
        const list = make('dl');
        for (const k of g.keys) list.append(make('div', {}, make('dt', {}, keyCaps(k.keys)), make('dd', {}, k.text)));
        groups.append(make('section', {}, make('h3', {}, g.title), list));
    }
    dialog.append(
        make('header', {}, make('h2', {}, 'Help'), close),
        make('p', {}, 'From a bump to its cause: drag over it on any chart, or choose cells of the heat map. '
            + 'Requests lists what ran then; one of them shows its timeline and its flame graph. '
            + 'Drag a second range with Shift held to see what is different between the two.'),
        make('p', {}, 'Every figure says what it means and how it was measured when you point at it. '
            + 'The address holds what you see: copy it to share or keep the view.'),
        groups);
    dialog.addEventListener('close', () => dialog.remove());
    dialog.addEventListener('click', (e) => { if (e.target === dialog) dialog.close(); });
    document.body.append(dialog);
    dialog.showModal();
}
