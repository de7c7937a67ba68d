// The dashboard: navigation, top bar, and one page at a time. In a file that was saved, the same on
// the data inside of it.

import './elements/all';
import { readFrozen, setFrozen } from './core/frozen';
import { startKeys } from './core/keys';
import { stopAt } from './core/now';
import { state, useFragment } from './core/state';
import { startTheme } from './core/theme';
import { startShell } from './shell/shell';
import { startRange } from './shell/since';

const saved = document.getElementById('sonde-data');
if (saved) {
    const file = readFrozen(saved.textContent ?? '');
    setFrozen(file);
    stopAt(Number(new URLSearchParams(file.query).get('to')) || file.made);
    useFragment(file.pages[0] ?? 'dashboard', file.query ?? '');
}
startTheme(state.get('theme'));
startKeys();
if (saved) startShell();
else void startRange().then(startShell);
