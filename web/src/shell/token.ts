// The agent wants a token: ask for it. It is kept for this tab only.

import { setToken } from '../core/api';
import { make } from '../core/dom';
import { listen } from '../core/dom';

export function startToken(): void {
    let open = false;
    listen<CustomEvent<{ base: string; wrong: boolean }>>(window, 'sonde-token', (e) => {
        e.preventDefault();
        if (open) return;
        open = true;
        const { base, wrong } = e.detail;
        const input = make('input', {
            type: 'password', autocomplete: 'current-password', required: true, 'aria-label': 'Token', spellcheck: 'false',
        });
        const dialog = make('dialog', { class: 'token', 'aria-label': 'A token is needed' });
        const form = make('form', { method: 'dialog' },
            make('h2', {}, 'This agent needs a token'),
            make('p', {}, 'It was started with SONDE_TOKEN or server.token_file. Ask whoever started it; the token is kept in this tab and sent to this agent only.'),
            wrong ? make('p', { class: 'problem', role: 'alert' }, 'That token was not accepted.') : null,
            input,
            make('div', { class: 'actions' }, make('button', { type: 'submit', class: 'primary' }, 'Go on')));
        dialog.append(form);
        form.addEventListener('submit', (s) => {
            s.preventDefault();
            if (!input.value) return;
            open = false;
            dialog.remove();
            setToken(input.value, base);
        });
        dialog.addEventListener('cancel', () => {
            open = false;
            dialog.remove();
            setToken(null, base);
        });
        document.body.append(dialog);
        dialog.showModal();
        input.focus();
    });
}
