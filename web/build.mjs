// Bundle the scripts and styles and write them as one C file:
//
//   node build.mjs MODULES OUT.c
//
// MODULES is the node_modules folder that has esbuild. The C file defines what
// src/present/flamegraph_private.h declares.
import { createRequire } from 'node:module';
import { writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const [modules, out] = process.argv.slice(2);
if (!out) {
    console.error('usage: node build.mjs MODULES OUT.c');
    process.exit(2);
}
const source = join(dirname(fileURLToPath(import.meta.url)), 'src');
const esbuild = createRequire(resolve(modules, 'any.js'))('esbuild');

const assets = [
    { name: 'svg_js', entry: 'svg.ts' },
    { name: 'viewer_js', entry: 'viewer.ts' },
    { name: 'viewer_css', entry: 'viewer.css' },
];

// Where each is put, these would end it: CDATA in the SVG, <script> and <style> in the page.
function harmless(name, text) {
    const safe = text.replaceAll(']]>', ']] >').trimEnd();
    for (const bad of ['</script', '</style', '<!--', ']]>']) {
        if (safe.toLowerCase().includes(bad)) throw new Error(`${name}: the bundle has ${bad} in it`);
    }
    return safe;
}

let c = '/* Made by web/build.mjs. */\n#include "present/flamegraph_private.h"\n';
for (const { name, entry } of assets) {
    const result = await esbuild.build({
        entryPoints: [join(source, entry)],
        bundle: true,
        minify: true,
        write: false,
        charset: 'ascii',
        target: ['es2020', 'chrome90', 'firefox90', 'safari15'],
        format: entry.endsWith('.ts') ? 'iife' : undefined,
        loader: { '.css': name === 'svg_js' ? 'text' : 'css' },
        logLevel: 'warning',
    });
    const bytes = Buffer.from(harmless(name, result.outputFiles[0].text));
    c += `\nstatic const unsigned char ${name}[] = {\n`;
    for (let i = 0; i < bytes.length; i += 24) c += [...bytes.subarray(i, i + 24)].join(',') + ',\n';
    c += `};\nconst struct sonde_web_asset sonde_web_${name} = { ${name}, sizeof(${name}) };\n`;
}
writeFileSync(out, c);
