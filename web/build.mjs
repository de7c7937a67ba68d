// Bundle the scripts and styles and write them as one C file:
//
//   node build.mjs MODULES OUT.c VERSION
//
// MODULES is the node_modules folder that has esbuild and what the scripts import. The C file
// defines what src/present/web.h declares.
import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const [modules, out, version] = process.argv.slice(2);
if (!version) {
    console.error('usage: node build.mjs MODULES OUT.c VERSION');
    process.exit(2);
}
const source = join(dirname(fileURLToPath(import.meta.url)), 'src');
const esbuild = createRequire(resolve(modules, 'any.js'))('esbuild');

// Put inside of pictures, as text.
const assets = [
    { name: 'svg_js', entry: 'svg.ts' },
    { name: 'viewer_js', entry: 'viewer.ts' },
    { name: 'viewer_css', entry: 'viewer.css' },
];

// Served, and the parts of an HTML report.
const files = [
    { name: 'page_html', entry: 'page.html', type: 'text/html; charset=utf-8' },
    { name: 'icon_svg', entry: 'icon.svg', type: 'image/svg+xml' },
    { name: 'app_js', entry: 'app.ts', type: 'text/javascript; charset=utf-8' },
    { name: 'app_css', entry: 'styles/app.css', type: 'text/css; charset=utf-8' },
    { name: 'elements_js', entry: 'elements.ts', type: 'text/javascript; charset=utf-8' },
];

// Where each is put, these would end it: CDATA in the SVG, <script> or <style> in a page.
function harmless(name, text) {
    const safe = text.replaceAll(']]>', ']] >').trimEnd();
    for (const bad of [name.endsWith('_css') ? '</style' : '</script', '<!--', ']]>']) {
        if (safe.toLowerCase().includes(bad)) throw new Error(`${name}: the bundle has ${bad} in it`);
    }
    return safe;
}

const options = {
    bundle: true,
    minify: true,
    write: false,
    charset: 'ascii',
    target: ['es2020', 'chrome90', 'firefox90', 'safari15'],
    nodePaths: [resolve(modules)],
    logLevel: 'warning',
};

// A style sheet that a script imports is its text, bundled and minified like any other.
const sheets = {
    name: 'sheets',
    setup(build) {
        build.onLoad({ filter: /\.css$/ }, async ({ path }) => {
            const result = await esbuild.build({ ...options, entryPoints: [path] });
            return { contents: result.outputFiles[0].text.trimEnd(), loader: 'text' };
        });
    },
};

async function bundle(name, entry) {
    const script = entry.endsWith('.ts');
    const result = await esbuild.build({
        ...options,
        entryPoints: [join(source, entry)],
        format: script ? 'iife' : undefined,
        plugins: script ? [sheets] : [],
    });
    return harmless(name, result.outputFiles[0].text);
}

async function content(name, entry) {
    if (/\.(ts|css)$/.test(entry)) return bundle(name, entry);
    return readFileSync(join(source, entry), 'utf8').replaceAll('VERSION', version);
}

function array(name, bytes) {
    let c = `\nstatic const unsigned char ${name}[] = {\n`;
    for (let i = 0; i < bytes.length; i += 24) c += [...bytes.subarray(i, i + 24)].join(',') + ',\n';
    return `${c}};\n`;
}

let c = '/* Made by web/build.mjs. */\n#include "present/web.h"\n';
for (const { name, entry } of assets) {
    c += array(name, Buffer.from(await content(name, entry)));
    c += `const struct sonde_web_asset sonde_web_${name} = { ${name}, sizeof(${name}) };\n`;
}
for (const { name, entry, type } of files) {
    const bytes = Buffer.from(await content(name, entry));
    const sha = createHash('sha256').update(bytes).digest();
    c += array(name, gzipSync(bytes, { level: 9 }));
    c += `const struct sonde_web_file sonde_web_${name} = {\n    "${type}", "${sha.toString('hex').slice(0, 32)}",\n`
        + `    "sha256-${sha.toString('base64')}", ${name}, sizeof(${name}), ${bytes.length}\n};\n`;
}
writeFileSync(out, c);
