// Asks before something is done that cannot be undone.

import { button, make } from '../core/dom';

export function confirmed(title: string, text: string, action: string): Promise<boolean> {
    return new Promise((resolve) => {
        const close = (yes: boolean) => {
            dialog.remove();
            resolve(yes);
        };
        const no = button('Cancel', '', () => close(false));
        const dialog = make('dialog', { 'aria-label': title },
            make('h2', {}, title), make('p', {}, text),
            make('div', { class: 'actions' }, no, button(action, '', () => close(true), { class: 'primary' })));
        dialog.addEventListener('cancel', () => close(false));
        document.body.append(dialog);
        dialog.showModal();
        no.focus();
    });
}
