/* The dynamic symbols of the loaded libnccl, read from its ELF file: exactly the 82 names twice,
 * weak and strong, of the same code, and what chorus.h declares; no symbol versions; the SONAME.
 */
#define _GNU_SOURCE
#include "conform/world.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const names[] = {
#define NAME(x) #x,
#include "conform/names.h"
#undef NAME
};

/* Taking each address makes the linker find every declared function. */
static void *const declared[][2] = {
#define NAME(x) {(void *)nccl##x, (void *)pnccl##x},
#include "conform/names.h"
#undef NAME
};

static const char *const chorus_names[] = {"chorus_comm_last_choice", "chorus_comm_save_schedule",
                                           "chorus_comm_status", "chorus_devices",
                                           "chorus_git_hash"};

struct image {
    const char *base;
    size_t bytes;
    const Elf64_Sym *symbols;
    size_t nsymbols;
    const char *strings;
    const char *soname;
    int has_versions;
};

static void read_dynamic(struct image *image, const Elf64_Shdr *section)
{
    const Elf64_Dyn *entries = (const void *)(image->base + section->sh_offset);
    for (size_t i = 0; i < section->sh_size / sizeof *entries; i++)
        if (entries[i].d_tag == DT_SONAME) image->soname = image->strings + entries[i].d_un.d_val;
}

static void image_open(struct image *image)
{
    Dl_info info;
    struct stat status;
    memset(image, 0, sizeof *image);
    CHECK(dladdr(dlsym(RTLD_DEFAULT, "pncclGetVersion"), &info) != 0);
    int fd = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQ(fstat(fd, &status), 0);
    image->bytes = (size_t)status.st_size;
    image->base = mmap(NULL, image->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(image->base != MAP_FAILED);
    CHECK_EQ(close(fd), 0);
    const Elf64_Ehdr *header = (const void *)image->base;
    const Elf64_Shdr *sections = (const void *)(image->base + header->e_shoff);
    const Elf64_Shdr *dynamic = NULL;
    for (int i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type == SHT_GNU_verdef) image->has_versions = 1;
        if (sections[i].sh_type == SHT_DYNAMIC) dynamic = &sections[i];
        if (sections[i].sh_type != SHT_DYNSYM) continue;
        image->symbols = (const void *)(image->base + sections[i].sh_offset);
        image->nsymbols = sections[i].sh_size / sizeof *image->symbols;
        image->strings = image->base + sections[sections[i].sh_link].sh_offset;
    }
    CHECK(image->symbols != NULL);
    CHECK(dynamic != NULL);
    read_dynamic(image, dynamic);
}

static void image_close(struct image *image)
{
    CHECK_EQ(munmap((void *)(uintptr_t)image->base, image->bytes), 0);
}

static const Elf64_Sym *find(const struct image *image, const char *prefix, const char *name)
{
    char full[96];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    for (size_t i = 0; i < image->nsymbols; i++)
        if (image->symbols[i].st_shndx != SHN_UNDEF &&
            strcmp(image->strings + image->symbols[i].st_name, full) == 0)
            return &image->symbols[i];
    FAIL("%s is not exported", full);
}

static void check_name(const char *name)
{
    struct image image;
    image_open(&image);
    const Elf64_Sym *weak = find(&image, "nccl", name);
    const Elf64_Sym *strong = find(&image, "pnccl", name);
    CHECK_EQ(ELF64_ST_BIND(weak->st_info), STB_WEAK);
    CHECK_EQ(ELF64_ST_BIND(strong->st_info), STB_GLOBAL);
    CHECK_EQ(ELF64_ST_TYPE(weak->st_info), STT_FUNC);
    CHECK_EQ(weak->st_value, strong->st_value);
    image_close(&image);
}

#define NAME(x)                                                                                    \
    static void check_##x(void)                                                                    \
    {                                                                                              \
        check_name(#x);                                                                            \
    }
#include "conform/names.h"
#undef NAME

static int is_listed(const char *symbol)
{
    const char *name = symbol + (symbol[0] == 'p');
    for (size_t i = 0; i < TEST_COUNT(names); i++)
        if (strncmp(name, "nccl", 4) == 0 && strcmp(name + 4, names[i]) == 0) return 1;
    for (size_t i = 0; i < TEST_COUNT(chorus_names); i++)
        if (strcmp(symbol, chorus_names[i]) == 0) return 1;
    return 0;
}

static void nothing_else_is_exported(void)
{
    struct image image;
    size_t found = 0;
    image_open(&image);
    for (size_t i = 0; i < image.nsymbols; i++) {
        const char *symbol = image.strings + image.symbols[i].st_name;
        if (image.symbols[i].st_shndx == SHN_UNDEF || symbol[0] == '\0') continue;
        if (!is_listed(symbol)) FAIL("%s is exported and in no header", symbol);
        found++;
    }
    CHECK_EQ(found, 2 * TEST_COUNT(names) + TEST_COUNT(chorus_names));
    CHECK_EQ(image.has_versions, 0);
    CHECK_STR(image.soname, "libnccl.so.2");
    image_close(&image);
}

static void dlsym_finds_all(void)
{
    CHECK_EQ(TEST_COUNT(names), 82);
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        char full[96];
        snprintf(full, sizeof full, "pnccl%s", names[i]);
        NOTE("%s", full);
        CHECK_EQ(dlsym(RTLD_DEFAULT, full), declared[i][1]);
        CHECK(dlsym(RTLD_DEFAULT, full + 1) != NULL);
        CHECK(declared[i][0] != NULL);
    }
}

static const struct test_case cases[] = {
#define NAME(x) {"exports: nccl" #x " is weak, with a strong twin", check_##x, 0},
#include "conform/names.h"
#undef NAME
    {"exports: nothing else", nothing_else_is_exported, 0},
    {"exports: dlsym finds all", dlsym_finds_all, 0},
};
const struct case_list export_cases = {cases, TEST_COUNT(cases)};
