// A second range was selected: where it is, and what can be done with it.

import { button, make } from '../core/dom';
import { clock } from '../core/format';
import { state } from '../core/state';

export function baseBar(): HTMLElement {
    const text = make('span');
    const compare = make('a', { class: 'button primary' }, 'Compare flame graphs');
    const bar = make('div', { class: 'base-bar', role: 'status', hidden: true }, make('i'), text, compare,
        button('Clear', 'Forget the second range', () => state.set({ base: null })));
    const show = () => {
        const m = /^([\d.]+)\.\.([\d.]+)$/.exec(state.get('base') ?? '');
        // Pages about flame graphs have controls of their own for it.
        bar.hidden = !m || ['compare', 'cpu', 'memory'].includes(state.page());
        if (!m) return;
        text.textContent = `Second range: ${clock(Number(m[1]))} – ${clock(Number(m[2]))}`;
        compare.href = state.link('compare');
    };
    state.on('*', show);
    show();
    return bar;
}
