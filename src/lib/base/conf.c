/* Reads configuration files by lines of bounded length. Called by param.c under its once, and
 * before the log can be used: what is wrong goes back as a fault of its line. */
#define _GNU_SOURCE
#include "base/conf.h"

#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 4096, SHOWN_BYTES = 80, ENTRY_BYTES = 16384 };

const char *ccl_conf_system_path = "/etc/nccl.conf";

static char *trim(char *text)
{
    while (isspace((unsigned char)*text)) text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1])) length--;
    text[length] = '\0';
    return text;
}

/* A name as the shell takes it. */
static int is_name(const char *key)
{
    if (!isalpha((unsigned char)key[0]) && key[0] != '_') return 0;
    for (; *key != '\0'; key++)
        if (!isalnum((unsigned char)*key) && *key != '_') return 0;
    return 1;
}

static void cut_comment(char *value)
{
    for (char *at = value; *at != '\0'; at++)
        if (*at == '#' && (at == value || isspace((unsigned char)at[-1]))) *at = '\0';
}

/* Splits a trimmed line into key and value, in `parts`. */
static void split_line(struct ccl_conf_line *line, char *parts)
{
    char *equals = strchr(parts, '=');
    if (equals == NULL) {
        line->fault = "is not KEY=VALUE";
        return;
    }
    *equals = '\0';
    cut_comment(equals + 1);
    line->key = trim(parts);
    line->value = trim(equals + 1);
    if (!is_name(line->key)) line->fault = "has no name of a variable before the =";
}

/* Reads to the end of the line. */
static void skip_rest(FILE *file)
{
    for (int c = getc(file); c != EOF && c != '\n';) c = getc(file);
}

static const char too_long[] = "is longer than 4094 bytes";
static const char zero_byte[] = "has a zero byte; the rest of the file is not read";

/* Takes the next line as `text`; 0: there is nothing more to read. */
static int read_line(FILE *file, char text[LINE_BYTES], const char **fault)
{
    if (fgets(text, LINE_BYTES, file) == NULL) return 0;
    size_t length = strlen(text);
    *fault = NULL;
    if (length > 0 && text[length - 1] == '\n') return 1;
    if (length == LINE_BYTES - 1) {
        text[SHOWN_BYTES] = '\0';
        *fault = too_long;
        skip_rest(file);
    } else if (!feof(file)) {
        *fault = zero_byte;
    }
    return 1;
}

static void read_lines(FILE *file, struct ccl_conf_line *line,
                       void (*take)(void *context, const struct ccl_conf_line *line), void *context)
{
    char text[LINE_BYTES], parts[LINE_BYTES];
    while (line->fault != zero_byte && read_line(file, text, &line->fault)) {
        line->number++;
        line->key = line->value = NULL;
        line->text = trim(text);
        if (line->fault == NULL && (line->text[0] == '\0' || line->text[0] == '#')) continue;
        memcpy(parts, line->text, strlen(line->text) + 1);
        if (line->fault == NULL) split_line(line, parts);
        take(context, line);
    }
}

void ccl_conf_read(const char *path, int is_named,
                   void (*take)(void *context, const struct ccl_conf_line *line), void *context)
{
    struct ccl_conf_line line = {.path = path, .text = ""};
    int error = 0;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        error = errno;
    } else {
        errno = 0;
        read_lines(file, &line, take, context);
        if (ferror(file)) error = errno;
        fclose(file);
    }
    if (error == 0 || (!is_named && access(path, F_OK) != 0)) return;
    line = (struct ccl_conf_line){.path = path, .text = "", .fault = strerror(error)};
    take(context, &line);
}

/* The home of the user in the password database, "" if it has none. */
static void find_home(char *home, size_t bytes)
{
    char entry[ENTRY_BYTES];
    struct passwd user, *found = NULL;
    home[0] = '\0';
    if (getpwuid_r(getuid(), &user, entry, sizeof entry, &found) == 0 && found != NULL)
        snprintf(home, bytes, "%s", found->pw_dir);
}

int ccl_conf_home_path(char *path, size_t bytes)
{
    char listed[LINE_BYTES];
    const char *home = getenv("HOME");
    if (home == NULL || home[0] == '\0') {
        find_home(listed, sizeof listed);
        home = listed;
    }
    int length = snprintf(path, bytes, "%s/.nccl.conf", home);
    return home[0] != '\0' && length > 0 && (size_t)length < bytes;
}
