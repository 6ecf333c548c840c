/* Configuration files: KEY=VALUE lines that stand for environment variables.
 *
 * Read once by param.c, which decides who wins. A line is trimmed; an empty one and one that
 * begins with # say nothing; in a value, # after white space begins a comment.
 */
#ifndef CCL_BASE_CONF_H
#define CCL_BASE_CONF_H

#include <stddef.h>

/* One line that says something. The texts live during the call only. */
struct ccl_conf_line {
    const char *path;
    int number;       /* from 1; 0: the file as a whole, which has a fault */
    const char *text; /* the trimmed line, cut where it is too long */
    const char *key, *value;
    const char *fault; /* what is wrong; NULL: nothing. Then there are no key and value */
};

/* Calls take for each such line. A file that cannot be read is a fault when the user named it
 * (`is_named`) or when it exists. */
void ccl_conf_read(const char *path, int is_named,
                   void (*take)(void *context, const struct ccl_conf_line *line), void *context);

/* $HOME/.nccl.conf, with the home of the password database where HOME is unset or empty. 0 when
 * there is no home or the path is too long. */
int ccl_conf_home_path(char *path, size_t bytes);

/* /etc/nccl.conf; a variable for the sake of tests, which set it before the first read. */
extern const char *ccl_conf_system_path;

#endif
