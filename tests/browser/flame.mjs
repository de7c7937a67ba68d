// The functions of an answer of /api/flamegraph, read as src/present/flamegraph/private.h says and not
// by the scripts under test.
const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

function numbers(text) {
    const out = [];
    let value = 0, place = 1;
    for (const c of text) {
        const digit = DIGITS.indexOf(c);
        value += (digit % 32) * place;
        place *= 32;
        if (digit < 32) {
            out.push(value);
            value = 0;
            place = 1;
        }
    }
    return out;
}

/** [{name, self, total, baseSelf, baseTotal}], in the unit of the answer. */
export function functionsOf(answer) {
    const width = answer.baseTotal ? 8 : 6;
    const all = numbers(answer.functions);
    const out = [];
    for (let i = 0; i + width <= all.length; i += width) {
        const [name, , , , self, total, baseSelf = 0, baseTotal = 0] = all.slice(i, i + width);
        const s = answer.scale;
        out.push({ name: answer.strings[name], self: self * s, total: total * s, baseSelf: baseSelf * s, baseTotal: baseTotal * s });
    }
    return out;
}

/** Functions by how much more of all time is their own than before: [{name, more}], most first. */
export function grownOf(answer) {
    const functions = functionsOf(answer);
    const whole = functions.reduce((sum, f) => sum + f.self, 0) || 1;
    const base = functions.reduce((sum, f) => sum + f.baseSelf, 0) || 1;
    return functions.map((f) => ({ name: f.name, more: f.self / whole - f.baseSelf / base })).sort((a, b) => b.more - a.more);
}
