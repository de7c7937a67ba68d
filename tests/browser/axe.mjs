// What axe-core finds on a page, shadow roots included. Injected by the driver, which the page's
// policy does not hold for.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Serious and critical violations, one line for each element. */
export async function audit(page) {
    await page.evaluate(source);
    const found = await page.evaluate(async () => {
        const result = await globalThis.axe.run(document, { resultTypes: ['violations'] });
        return result.violations.filter((v) => v.impact === 'serious' || v.impact === 'critical')
            .flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.target.flat().join(' ')}: ${n.html.slice(0, 160)} ${n.any[0]?.message ?? ''}`));
    });
    return found;
}
