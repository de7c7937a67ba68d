// The page of `sonde flamegraph -o FILE.html`: the flame graph element on the data that is in the
// page, and a switch between light and dark.

import { button, makeCustom } from './core/dom';
import { Theme, setTheme, theme } from './core/theme';
import './elements/flamegraph';
import type { SondeFlamegraph } from './elements/flamegraph';

const THEMES: readonly Theme[] = ['auto', 'light', 'dark'];
const NAMES = { auto: '◐ auto', light: '☀ light', dark: '☾ dark' };

const graph = makeCustom('sonde-flamegraph', { fill: true, level: 1 }) as SondeFlamegraph;
const switcher = button(NAMES[theme()], 'Light or dark', () => {
    setTheme(THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length], false);
    switcher.textContent = NAMES[theme()];
}, { slot: 'tools', class: 'theme' });
graph.append(switcher, document.getElementById('sonde-data')!);
document.body.append(graph);
window.addEventListener('keydown', (e) => graph.key(e));
