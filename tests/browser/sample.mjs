// Folded stacks that look like an inference server's, for tests and screenshots:
//
//   node sample.mjs server OUT         a few hundred stacks with modules and lines
//   node sample.mjs after OUT          the same after a change: for differences
//   node sample.mjs odd OUT            names that a picture could choke on
//   node sample.mjs big OUT            200,000 unique stacks, some 107 MB
//   node sample.mjs huge OUT           800,000 of them, some 410 MB
//
// Always the same bytes.
import { createWriteStream } from 'node:fs';
import { once } from 'node:events';

let seed = 12345;
function random() {
    seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
    return seed / 0x7fffffff;
}

const ggml = 'libggml-cpu.so';
const at = (name, module, file, line) => [name, module, file, line].join('\t');
const main = [at('_start', 'llama-server', '', 0), at('__libc_start_main', 'libc.so.6', '', 0),
    at('main', 'llama-server', 'tools/server/server.cpp', 2871),
    at('server_context::update_slots()', 'llama-server', 'tools/server/server.cpp', 1904)];
const worker = [at('clone3', 'libc.so.6', '', 0), at('start_thread', 'libc.so.6', '', 0),
    at('ggml_graph_compute_secondary_thread', ggml, 'ggml/src/ggml-cpu/ggml-cpu.c', 2903),
    at('ggml_graph_compute_thread', ggml, 'ggml/src/ggml-cpu/ggml-cpu.c', 2811)];
const decode = [at('llama_decode', 'libllama.so', 'src/llama-context.cpp', 2716),
    at('llama_context::process_ubatch(llama_ubatch const&)', 'libllama.so', 'src/llama-context.cpp', 735),
    at('ggml_backend_sched_graph_compute_async', 'libggml-base.so', 'ggml/src/ggml-backend.cpp', 1650),
    at('ggml_graph_compute_thread', ggml, 'ggml/src/ggml-cpu/ggml-cpu.c', 2811)];
const mulMat = at('ggml_compute_forward_mul_mat', ggml, 'ggml/src/ggml-cpu/ggml-cpu.c', 1219);
const kernels = [
    ['ggml_vec_dot_q4_K_q8_K', 31], ['ggml_vec_dot_q6_K_q8_K', 14], ['quantize_row_q8_K', 2],
    ['ggml_vec_dot_f16', 5],
].map(([n, w]) => [at(n, ggml, 'ggml/src/ggml-cpu/arch/x86/quants.c', 1200 + n.length), w]);

function serverStacks(after) {
    const stacks = [];
    const add = (frames, weight) => stacks.push([frames, Math.round(weight)]);
    for (const base of [[...main, ...decode], worker]) {
        const part = base === worker ? 1 : 0.9;
        for (const [k, w] of kernels) {
            add([...base, mulMat, k], w * 100 * part * (after && k.includes('q6_K') ? 1.8 : 1));
        }
        add([...base, mulMat], 160 * part);
        for (const [op, w] of [['soft_max', 5], ['rms_norm', 4], ['rope', 3], ['add', 2], ['cpy', 3], ['silu', 2]]) {
            const f = at(`ggml_compute_forward_${op}`, ggml, 'ggml/src/ggml-cpu/ops.cpp', 100 + w);
            add([...base, f], w * 40 * part);
            add([...base, f, at('expf', 'libm.so.6', '', 0)], w * 12 * part);
        }
        add([...base, at('ggml_barrier', ggml, 'ggml/src/ggml-cpu/ggml-cpu.c', 553)], 900 * part * (after ? 0.4 : 1));
    }
    const sampler = [...main, at('common_sampler_sample(common_sampler*, llama_context*, int)', 'libllama.so', 'common/sampling.cpp', 322)];
    for (const s of ['top_k', 'top_p', 'min_p', 'temp', 'dist']) {
        const f = at(`llama_sampler_${s}_apply(llama_sampler*, llama_token_data_array*)`, 'libllama.so', 'src/llama-sampling.cpp', 400);
        add([...sampler, f], 30 + 50 * random());
        add([...sampler, f, at('void std::__introsort_loop<llama_token_data*, long, __gnu_cxx::__ops::_Iter_comp_iter<bool (*)(llama_token_data const&, llama_token_data const&)> >', 'libllama.so', 'bits/stl_algo.h', 1938)], 60 * random() + 10);
    }
    const http = [at('clone3', 'libc.so.6', '', 0), at('start_thread', 'libc.so.6', '', 0),
        at('httplib::ThreadPool::worker::operator()()', 'llama-server', 'vendor/cpp-httplib/httplib.h', 771),
        at('httplib::Server::process_request(httplib::Stream&, std::string const&, int)', 'llama-server', 'vendor/cpp-httplib/httplib.h', 7415)];
    add([...http, at('nlohmann::json_abi_v3_12_0::basic_json<>::dump() const', 'llama-server', 'vendor/nlohmann/json.hpp', 1290)], 210);
    add([...http, at('__send', 'libc.so.6', '', 0), at('entry_SYSCALL_64_after_hwframe', '[kernel]', '', 0), at('do_syscall_64', '[kernel]', '', 0), at('__sys_sendto', '[kernel]', '', 0), at('tcp_sendmsg', '[kernel]', '', 0)], 260);
    add([...http, at('__poll', 'libc.so.6', '', 0), at('entry_SYSCALL_64_after_hwframe', '[kernel]', '', 0), at('do_syscall_64', '[kernel]', '', 0), at('do_sys_poll', '[kernel]', '', 0)], 120);
    if (after) add([...http, at('log_request(std::string const&)', 'llama-server', 'tools/server/server.cpp', 4100)], 180);
    return stacks;
}

// Stands for a name with bytes that are no UTF-8, which a string here cannot hold.
const BAD_BYTES = 'bad@bytes';
const odd = ['operator<<', 'a&b"c', "it's", '</script><script>window.injected=1</script>',
    '<img src=x onerror="window.injected=1">', ']]><x/>', '-->', '&lt', '\\u003c', '%s%n', '${1}',
    'tab\u0001bell\u0007', 'naïve_日本語_🔥', BAD_BYTES, '__proto__', 'constructor', '"',
    'a'.repeat(3000), 'std::map<std::string, std::vector<int>>::operator[](std::string&&)'];

async function write(path, lines) {
    const out = createWriteStream(path);
    for (const line of lines) {
        const bytes = Buffer.from(line + '\n');
        const bad = bytes.indexOf(BAD_BYTES);
        if (bad >= 0) bytes[bad + 3] = 0xff;
        if (!out.write(bytes)) await once(out, 'drain');
    }
    out.end();
    await once(out, 'finish');
}

function* bigLines(count) {
    const pools = [];
    for (let d = 0; d < 20; d++) {
        const names = [];
        for (let i = 0; i < 12 + 40 * d; i++) names.push(`ns${d}::Layer${i % 17}::function_${i}<int>`);
        pools.push(names);
    }
    const skewed = (names) => names[Math.floor(names.length * random() ** 11)];
    const seen = new Set();
    while (seen.size < count) {
        const stack = ['main', ...pools.map(skewed).slice(0, 14 + Math.floor(7 * random()))];
        const text = stack.join(';');
        if (seen.has(text)) continue;
        seen.add(text);
        yield `${text} ${1 + Math.floor(40 * random() ** 6)}`;
    }
}

const [kind, path] = process.argv.slice(2);
if (kind === 'big') await write(path, bigLines(200_000));
else if (kind === 'huge') await write(path, bigLines(800_000));
else if (kind === 'odd') await write(path, odd.map((n, i) => `main;${n};leaf ${100 + i}`));
else await write(path, serverStacks(kind === 'after').map(([f, w]) => `${f.join(';')} ${w}`));
