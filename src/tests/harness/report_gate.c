/* A comparison with a baseline as lines under the table and as a member of the records. Called by
 * the report's writers in the process of rank 0.
 */
#include "harness/baseline.h"
#include "harness/report_text.h"
#include "harness/report_writer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void print_cell(const struct perf_gate_cell *cell)
{
    printf("#   %12zu  %8s  %6s  %4d  %-12s  ", cell->size_bytes, cell->type, cell->op, cell->root,
           cell->in_place ? "in place" : "out of place");
    if (cell->from >= 0) printf("%d -> %d  ", cell->from, cell->to);
    if (cell->change == PERF_CHANGE_MISSING) {
        printf("not in this run\n");
        return;
    }
    if (cell->by_rate)
        printf("%9.4g -> %9.4g GB/s", cell->base_rate, cell->now_rate);
    else
        printf("%9.4g -> %9.4g us  ", cell->base_us, cell->now_us);
    printf("  %7.1f %%  (tolerance %.1f %%)  %s\n", cell->change_percent, cell->tolerance_percent,
           perf_change_name(cell->change));
}

static void print_support(const struct perf_gate *gate)
{
    if (gate->supported_percent < 0) {
        printf("# Baseline noise       : not known, it has fewer than 3 runs or cycles (-N)\n");
        return;
    }
    printf("# Baseline noise       : its runs support a tolerance of %.1f %% for all rows",
           ceil(gate->supported_percent * 10) / 10);
    if (gate->tolerance_percent > 0 && gate->tolerance_percent < gate->supported_percent)
        printf("; %g %% will raise false alarms", gate->tolerance_percent);
    printf("\n");
}

void perf_report_text_gate(const struct perf_gate *gate)
{
    for (int changed = PERF_CHANGE_FASTER; changed <= PERF_CHANGE_MISSING; changed++)
        for (int i = 0; i < gate->ncells; i++)
            if ((int)gate->cells[i].change == changed) print_cell(&gate->cells[i]);
    print_support(gate);
    printf("# Baseline             : %d of %d slower, %d faster, %d not in this run (%s%s",
           gate->nslower, gate->ncells, gate->nfaster, gate->nmissing, gate->file,
           gate->tolerance_percent > 0 ? "" : "; tolerance 5 %, more where it is noisier");
    if (gate->tolerance_percent > 0) printf("; tolerance %g %%", gate->tolerance_percent);
    printf("; %d run%s) %s\n", gate->nruns, gate->nruns == 1 ? "" : "s",
           gate->trouble   ? "CANNOT COMPARE"
           : gate->nslower ? "SLOWER"
                           : "OK");
    if (gate->trouble) printf("# Cannot compare       : %s\n", gate->trouble);
}

void perf_writer_gate(struct perf_json *json, const struct perf_gate *gate)
{
    if (gate == NULL) {
        perf_json_string(json, "gate", NULL);
        return;
    }
    perf_json_open(json, "gate", '{');
    perf_json_string(json, "baseline", gate->file);
    perf_json_real(json, "tolerance_pct",
                   gate->tolerance_percent > 0 ? gate->tolerance_percent : NAN);
    perf_json_real(json, "supported_tolerance_pct",
                   gate->supported_percent >= 0 ? gate->supported_percent : NAN);
    perf_json_int(json, "slower", gate->nslower);
    perf_json_int(json, "faster", gate->nfaster);
    perf_json_int(json, "missing", gate->nmissing);
    perf_json_int(json, "runs", gate->nruns);
    perf_json_string(json, "trouble", gate->trouble);
    perf_json_open(json, "cells", '[');
    for (int i = 0; i < gate->ncells; i++) {
        const struct perf_gate_cell *cell = &gate->cells[i];

        perf_json_open(json, NULL, '{');
        perf_json_int(json, "size", (int64_t)cell->size_bytes);
        perf_json_string(json, "type", cell->type);
        perf_json_string(json, "redop", cell->op);
        perf_json_int(json, "root", cell->root);
        perf_json_int(json, "from", cell->from);
        perf_json_int(json, "to", cell->to);
        perf_json_string(json, "place", cell->in_place ? "in_place" : "out_of_place");
        perf_json_string(json, "judged_by", cell->by_rate ? "bus_bw" : "time");
        perf_json_real(json, "baseline_us", cell->base_us);
        perf_json_real(json, "now_us", cell->now_us > 0 ? cell->now_us : NAN);
        perf_json_real(json, "change_pct", cell->change_percent);
        perf_json_real(json, "tolerance_pct", cell->tolerance_percent);
        perf_json_real(json, "noise_pct", cell->noise_percent >= 0 ? cell->noise_percent : NAN);
        perf_json_string(json, "change", perf_change_name(cell->change));
        perf_json_close(json);
    }
    perf_json_close(json);
    perf_json_close(json);
}
