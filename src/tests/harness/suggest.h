/* Did-you-mean: the word of a list that a mistyped word is nearest to.
 *
 * Called by the option parser for option names, types, operators and init modes.
 */
#ifndef PERF_SUGGEST_H
#define PERF_SUGGEST_H

/* Insertions, deletions, changes and swaps of neighbours that turn `from` into `to`. Words longer
 * than 63 characters are cut. */
int perf_edit_distance(const char *from, const char *to);

/* The nearest of `count` words, or NULL when none is near enough to be what was meant. */
const char *perf_suggest(const char *word, const char *const *words, int count);

#endif
