/* uprobe_elf.h - a small ELF file with functions of llama.cpp in its symbol table. */
#ifndef SONDE_TEST_COLLECT_UPROBE_UPROBE_ELF_H
#define SONDE_TEST_COLLECT_UPROBE_UPROBE_ELF_H

#include <elf.h>
#include <stdint.h>
#include <string.h>

enum {
    ELF_TEXT = 0x200, ELF_TEXT_LEN = 0x100, ELF_SYMBOLS = 0x300, ELF_STRINGS = 0x400,
    ELF_SECTIONS = 0x600, ELF_SIZE = 0x600 + 3 * sizeof(Elf64_Shdr)
};
#define ELF_ADDR 0x401000ull

/* Code of each function, 32 bytes apart. */
static const struct { const char *name, *code; size_t len; } elf_functions[] = {
    { "llama_decode", "\xf3\x0f\x1e\xfa\x41\x54", 6 },
    { "llama_sampler_apply", "\xf3\x0f\x1e\xfa\x48\x85\xff\x74\x17", 9 },
    { "llama_token_to_piece", "\xf3\x0f\x1e\xfa\x45\x0f\xb6\xc9\xe9\x00\x00\x00\x00", 13 },
    { "llama_tokenize", "\x0f\xb6\x44\x24\x08\xc3", 6 },
    { "ggml_backend_buffer_get_size",
      "\xf3\x0f\x1e\xfa\x48\x85\xff\x74\x05\x48\x8b\x47\x68\xc3\x50\x48\x8b\x47\x10", 19 },
    { "ggml_get_name", "\xf3\x0f\x1e\xfa\x48\x8d\x87\x00\x01\x00\x00\xc3", 12 },
    { "llama_decoder", "\x55\xc3", 2 }, /* another name */
};
#define ELF_FUNCTIONS (sizeof(elf_functions) / sizeof(elf_functions[0]))

static inline void elf_make(uint8_t out[ELF_SIZE])
{
    uint32_t at = 1;
    memset(out, 0, ELF_SIZE);
    Elf64_Ehdr h = { .e_type = ET_DYN, .e_machine = EM_X86_64, .e_version = 1,
                     .e_entry = ELF_ADDR, .e_phoff = sizeof(h), .e_shoff = ELF_SECTIONS,
                     .e_ehsize = sizeof(h), .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 1,
                     .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 3 };
    memcpy(h.e_ident, ELFMAG, SELFMAG);
    h.e_ident[EI_CLASS] = ELFCLASS64;
    h.e_ident[EI_DATA] = ELFDATA2LSB;
    const Elf64_Phdr p = { .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = ELF_TEXT,
                           .p_vaddr = ELF_ADDR, .p_filesz = ELF_TEXT_LEN, .p_memsz = ELF_TEXT_LEN };
    const Elf64_Shdr sections[3] = {
        { 0 },
        { .sh_type = SHT_SYMTAB, .sh_offset = ELF_SYMBOLS, .sh_link = 2,
          .sh_size = sizeof(Elf64_Sym) * (ELF_FUNCTIONS + 1), .sh_entsize = sizeof(Elf64_Sym) },
        { .sh_type = SHT_STRTAB, .sh_offset = ELF_STRINGS, .sh_size = ELF_SECTIONS - ELF_STRINGS },
    };
    memcpy(out, &h, sizeof(h));
    memcpy(out + sizeof(h), &p, sizeof(p));
    memcpy(out + ELF_SECTIONS, sections, sizeof(sections));
    for (uint32_t i = 0; i < ELF_FUNCTIONS; i++) {
        const Elf64_Sym sym = { .st_name = at, .st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
                                .st_shndx = 1, .st_value = ELF_ADDR + 32 * i, .st_size = 32 };
        memcpy(out + ELF_SYMBOLS + (i + 1) * sizeof(sym), &sym, sizeof(sym));
        memcpy(out + ELF_TEXT + 32 * i, elf_functions[i].code, elf_functions[i].len);
        memcpy(out + ELF_STRINGS + at, elf_functions[i].name, strlen(elf_functions[i].name));
        at += (uint32_t)strlen(elf_functions[i].name) + 1;
    }
}

#endif
