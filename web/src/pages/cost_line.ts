// One line beside profiles: what sonde costs the program, measured by switching sampling off and on.

import { costDetails, costLine } from '../core/cost';
import { make } from '../core/dom';
import { tip } from '../core/tip';
import { Cost } from '../core/types';
import { askOptional } from './optional';

const EVERY_MS = 15000;

export class CostLine {
    readonly element = make('p', { class: 'hint cost', hidden: true });
    private readonly text = make('span', { tabindex: '0' });
    private details: string[] = [];
    readonly end: () => void;

    constructor() {
        this.element.append(this.text);
        tip(this.text, () => this.details.length ? this.details.map((d) => make('p', {}, d)) : null);
        this.end = askOptional<Cost>({
            route: '/api/cost', everyMs: EVERY_MS,
            show: (c) => this.show(c),
            failed: () => { /* what was known last stays; the page says that the agent is gone */ },
        });
    }

    private show(c: Cost): void {
        const line = costLine(c);
        this.details = costDetails(c);
        if (this.text.textContent !== line) this.text.textContent = line;
        this.text.setAttribute('aria-description', this.details.join(' '));
        this.element.hidden = false;
    }
}
