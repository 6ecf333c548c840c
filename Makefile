# Builds libnccl.so.2, the drivers, the tests and the examples. One non-recursive makefile;
# the lists of sources are src/lib/lib.mk and src/tests/tests.mk. `make help` tells the rest.

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules --no-print-directory

VERSION := 2.30.7
comma   := ,
empty   :=
space   := $(empty) $(empty)

# ---------------------------------------------------------------- variables, checked by name

VARIABLES := AR BUILDDIR CC CFLAGS COV CUDA CUDA_HOME DEBUG DESTDIR FAULTS LDFLAGS MPI MPI_HOME \
             NAME_SUFFIX NCCL_LIBRARY NVCC_GENCODE PREFIX QUICK SAN SLICE V
given   := $(foreach v,$(.VARIABLES),$(if $(filter command,$(origin $v)),$v))
unknown := $(firstword $(filter-out $(VARIABLES),$(given)))
ifneq ($(unknown),)
$(error $(unknown) is no variable of this makefile$(shell scripts/suggest \
  $(unknown) $(VARIABLES)); see make help)
endif

# $(call one_of,VARIABLE,values) stops make when the value is none of them; empty is unset.
one_of = $(if $(filter-out $2,$($1))$(filter-out 0 1,$(words $($1))),$(error \
  $1='$($1)' is none of: $2))
# $(call one_word,VARIABLE) stops make when the value has a space in it.
one_word = $(if $(filter-out 0 1,$(words $($1))),$(error $1='$($1)': a space is not possible here))

MPI    ?= auto
CUDA   ?= auto
PREFIX ?= /usr/local
$(call one_of,MPI,auto 0 1)
$(call one_of,CUDA,auto 0 1)
$(call one_of,COV,0 1)
$(call one_of,DEBUG,0 1)
$(call one_of,FAULTS,0 1)
$(call one_of,QUICK,0 1)
$(call one_of,V,0 1)
$(call one_of,SAN,address undefined thread address$(comma)undefined)
$(foreach v,BUILDDIR CUDA_HOME DESTDIR MPI_HOME NAME_SUFFIX PREFIX,$(call one_word,$v))
ifneq ($(filter-out /%,$(PREFIX)),)
$(error PREFIX='$(PREFIX)' is not an absolute path)
endif
ifneq ($(findstring /,$(NAME_SUFFIX)),)
$(error NAME_SUFFIX='$(NAME_SUFFIX)': a slash is not possible here)
endif

ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(origin AR),default)
AR := ar
endif

# A variant goes to its own folder unless BUILDDIR says where.
variant := $(if $(filter 1,$(DEBUG)),debug) $(subst $(comma),-,$(SAN)) \
           $(if $(filter 1,$(FAULTS)),faults) $(if $(filter 1,$(COV)),cov)
variant := $(subst $(space),-,$(strip $(variant)))
BUILDDIR ?= $(if $(variant),build/$(variant),build)
B := $(patsubst %/,%,$(BUILDDIR))
ifeq ($(B),)
$(error BUILDDIR='$(BUILDDIR)' is no folder to build in)
endif
sources := ./ ../ .git/ .ci/ src/ scripts/ examples/ results/ plots/ containers/
ifneq ($(filter $(sources) $(addsuffix %,$(filter-out ./ ../,$(sources))),$B/),)
$(error BUILDDIR='$(BUILDDIR)' is a folder of the sources; give one of its own)
endif

# ---------------------------------------------------------------- what the machine has

mpicc := $(if $(filter 0,$(MPI)),,$(if $(MPI_HOME),$(wildcard $(MPI_HOME)/bin/mpicc),$(shell \
  command -v mpicc 2>/dev/null)))
nvcc  := $(if $(filter 0,$(CUDA)),,$(if $(CUDA_HOME),$(wildcard $(CUDA_HOME)/bin/nvcc),$(shell \
  command -v nvcc 2>/dev/null || ls /usr/local/cuda/bin/nvcc 2>/dev/null)))
mpi_none  := $(if $(MPI_HOME),no $(MPI_HOME)/bin/mpicc,no mpicc in PATH)
cuda_none := $(if $(CUDA_HOME),no $(CUDA_HOME)/bin/nvcc,no nvcc in PATH or /usr/local/cuda/bin)
# What was asked for on the command line and is not there stops make; a variable of the
# environment only turns it off.
asked = $(or $(filter 1,$($1)),$(and $(filter command,$(origin $2)),$(filter auto,$($1))))
ifeq ($(mpicc),)
$(if $(call asked,MPI,MPI_HOME),$(error MPI=$(MPI) MPI_HOME='$(MPI_HOME)': $(mpi_none)))
endif
ifeq ($(nvcc),)
$(if $(call asked,CUDA,CUDA_HOME),$(error CUDA=$(CUDA) CUDA_HOME='$(CUDA_HOME)': $(cuda_none)))
endif
# Beside nvcc lie the headers and the runtime, which is linked statically.
cuda_root := $(patsubst %/bin/nvcc,%,$(nvcc))
cudart := $(if $(nvcc),$(firstword $(wildcard $(foreach d,lib64 lib targets/*/lib lib/*,\
  $(cuda_root)/$d/libcudart_static.a))))
ifneq ($(nvcc),)
ifeq ($(cudart),)
$(error CUDA=$(CUDA): $(nvcc) is there, but no libcudart_static.a in $(cuda_root)/lib64; CUDA=0 \
  builds without)
endif
endif
NVCC_GENCODE ?= -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90 \
                -gencode=arch=compute_90,code=compute_90
ifneq ($(filter-out -gencode% arch=compute_%,$(NVCC_GENCODE)),)
$(error NVCC_GENCODE='$(NVCC_GENCODE)' is not made of -gencode=arch=compute_NN,code=sm_NN)
endif

include src/lib/lib.mk
include src/tests/tests.mk

# ---------------------------------------------------------------- flags

WARN := -Wall -Wextra -Wshadow -Wconversion -Wmissing-prototypes -Wvla -Werror
OPT  := $(if $(filter 1,$(DEBUG) $(COV)),-O0,$(if $(SAN),-O1,-O2)) -g
# Nobody looks at the flags of float exceptions; without this, loops with choices do not vectorize.
KERNEL_OPT := $(if $(filter -O2,$(OPT)),-O3) -fno-trapping-math
INSTRUMENT := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer) \
              $(if $(findstring undefined,$(SAN)),-fno-sanitize-recover=all) \
              $(if $(filter 1,$(COV)),--coverage)
CPPFLAGS := -Isrc/lib -Isrc/tests -DCHORUS_NO_CUDA $(if $(nvcc),-DCCL_CUDA) \
            $(if $(filter 1,$(FAULTS)),-DCCL_FAULTS)
BASE_CFLAGS := -std=gnu11 $(OPT) $(WARN) -fvisibility=hidden -fPIC -pthread -fno-math-errno \
               -ffp-contract=off $(INSTRUMENT)
BASE_LDFLAGS := -pthread $(INSTRUMENT)
LIBS := $(if $(cudart),$(cudart) -lrt) -ldl -lm
# DT_RPATH rather than DT_RUNPATH: LD_LIBRARY_PATH must not slip in another libnccl.
rpath = -Wl,--disable-new-dtags \
  $(foreach d,$1,-Wl$(comma)-rpath$(comma)'$$ORIGIN$(patsubst self,,$d)')

ifeq ($(V),1)
Q :=
say :=
else
Q := @
say = @printf '  %-5s %s\n' $1 $(or $2,$@);
endif

compile = $(call say,CC,$<)$(CC) $(CPPFLAGS) $(BASE_CFLAGS) $1 $(CFLAGS) -MMD -MP -c -o $@ $<
link    = $(call say,LD)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) -o $@ $1 $(LIBS)
objects = $(patsubst %.cu,$B/obj/%.cu.o,$(patsubst %.c,$B/obj/%.o,$1))

# ---------------------------------------------------------------- names of what is built

SO     := $B/libnccl.so.$(VERSION)
SONAME := $B/libnccl.so.2
STATIC := $B/libnccl_static.a
MAP    := src/lib/libnccl.map
PC     := $B/nccl.pc

LIB_OBJS     := $(call objects,$(LIB_SRCS) $(if $(nvcc),$(CU_SRCS)))
HARNESS_CUDA := $(if $(nvcc),$(HARNESS_CU_SRCS),$(HARNESS_NO_CU_SRCS))
CU_OBJS      := $(if $(nvcc),$(call objects,$(CU_SRCS) $(HARNESS_CUDA)))
CUDA_TEST_OBJS := $(filter-out %.cu.o,$(call objects,$(foreach t,$(CUDA_TESTS),\
                   src/tests/gpu/$t.c $($t_SRCS))))
HARNESS_LIB  := $B/obj/libharness.a
TEST_LIB     := $B/obj/libtest.a
DRIVER_BINS  := $(patsubst %,$B/%_perf$(NAME_SUFFIX),$(DRIVERS))
MPI_PLUGIN   := $(if $(mpicc),$B/chorus_mpi.so)
UNIT_BINS    := $(addprefix $B/tests/,$(UNIT_TESTS))
SIM_BINS     := $(addprefix $B/tests/,$(SIM_TESTS))
CORE_BINS    := $(addprefix $B/tests/,$(CORE_TESTS))
SIM_GPU_BINS := $(addprefix $B/sim/,$(notdir $(SIM_GPU_TESTS)))
CHECK_BINS   := $(addprefix $B/tests/,$(CHECKS))
FAULT_BINS   := $(addprefix $B/tests/,$(FAULT_TESTS))
BENCH_BINS   := $(addprefix $B/tests/,$(UNIT_BENCHES))
CONFORM_BINS := $(addprefix $B/tests/test_,$(CONFORM_TESTS))
LOADER_BINS  := $(addprefix $B/tests/,$(LOADERS))
GPU_TEST_BINS := $(addprefix $B/gpu/,$(GPU_TESTS))
GPU_BENCH_BINS := $(addprefix $B/gpu/,$(GPU_BENCHES))
BENCH_PAIR   := $B/bench/bench_chorus $(if $(mpicc),$B/bench/bench_mpi)
MPI_BINS     := $(if $(mpicc),$(patsubst %.c,$B/tests/%,$(notdir $(MPI_TESTS))))
PRELOAD_BINS := $(patsubst %.c,$B/tests/%.so,$(notdir $(PRELOADS)))
PROBE        := $(if $(nvcc),$B/tests/probe)
CUDA_TEST_BINS := $(if $(nvcc),$(addprefix $B/gpu/,$(CUDA_TESTS)))
GPU_BINS     := $(if $(nvcc),$(addprefix $B/gpu/,$(GPU_PROGRAMS)))
EXAMPLE_BINS := $(addprefix $B/examples/,$(EXAMPLES) $(if $(mpicc),$(MPI_EXAMPLES)))

# ---------------------------------------------------------------- targets

.PHONY: all lib drivers tests bench examples cuda gpu probes run test check-all tidy tune \
        install uninstall dist clean plots check-layers format help report gpu-test gpu-test-all \
        sanitize bench-gpu FORCE
.SECONDARY:

all: report lib drivers examples
lib: report $(SO) $(SONAME) $B/libnccl.so $(STATIC)
drivers: report $(DRIVER_BINS) $(MPI_PLUGIN)
tests: all $(UNIT_BINS) $(SIM_BINS) $(SIM_GPU_BINS) $(CORE_BINS) $(CHECK_BINS) $(FAULT_BINS) \
       $(CONFORM_BINS) $(LOADER_BINS) $(MPI_BINS) $(PRELOAD_BINS) $(GPU_TEST_BINS) $(GPU_BENCH_BINS)
bench: report $(BENCH_BINS) $(BENCH_PAIR)
	@scripts/bench $(if $(filter 1,$(QUICK)),--quick) $B

# New rows for src/lib/algo/cost_table.h, measured here; takes minutes on an idle machine.
tune: drivers $B/tests/fit_costs
	scripts/tune $B
examples: $(EXAMPLE_BINS)
cuda: report $(CU_OBJS)
gpu: report $(GPU_BINS) $(CUDA_TEST_BINS)
probes: report $(PROBE)

report:
	@echo "MPI:  $(strip $(mpi_says))"
	@echo "CUDA: $(strip $(cuda_says))"
mpi_why   := $(if $(filter 0,$(MPI)),MPI=0,$(mpi_none))
mpi_says  := $(if $(mpicc),on: $(mpicc) builds chorus_mpi.so$(comma) mpirun starts the drivers,\
                           off: $(mpi_why)$(comma) drivers start without it (-g -t --spawn))
cuda_why  := $(if $(filter 0,$(CUDA)),CUDA=0,$(cuda_none))
cuda_says := $(if $(nvcc),on: $(nvcc),off: $(cuda_why)$(comma) host devices only)

# The folder is ours from here on: clean removes nothing without this mark. Every object depends
# on the flags, so that a change of one rebuilds, and api_info.o on the git hash.
$B/.chorus-build:
	@mkdir -p $B && : > $@
$B/flags: FORCE | $B/.chorus-build
	@printf '%s\n' '$(CC) $(CPPFLAGS) $(BASE_CFLAGS) $(CFLAGS) $(LDFLAGS)' > $@.new; \
	 if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
$B/git-hash: FORCE | $B/.chorus-build
	@scripts/git-hash > $@.new; if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$B/obj/src/lib/kernel/%.o: src/lib/kernel/%.c $B/flags
	@mkdir -p $(@D)
	$(call compile,$(KERNEL_OPT) $(ISA))
# Loops for instruction sets beyond the baseline; kernel/fold.c asks the processor before use.
ifneq ($(findstring x86_64,$(shell $(CC) -dumpmachine)),)
$B/obj/src/lib/kernel/fold_avx2.o: ISA := -mavx2 -mf16c
$B/obj/src/lib/kernel/fold_avx512.o: ISA := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mf16c \
                                          -mprefer-vector-width=512
endif
$B/obj/src/lib/api/api_info.o: src/lib/api/api_info.c $B/flags $B/git-hash
	@mkdir -p $(@D)
	$(call compile,-DCHORUS_GIT_HASH='"$(shell cat $B/git-hash)"')
$B/obj/%.o: %.c $B/flags
	@mkdir -p $(@D)
	$(call compile)
# Nothing of libstdc++ is linked: launching a kernel needs none of it. What ptxas says of registers
# and stack is kept beside the object, for build/test_cuda_kernels.sh.
CU_FLAGS := -Xptxas -v -DCCL_CUDA -O3 -std=c++17 --fmad=false $(NVCC_GENCODE) \
            -Xcompiler -fPIC$(comma)-fno-exceptions$(comma)-fno-threadsafe-statics
$B/cu-flags: FORCE | $B/.chorus-build
	@printf '%s\n' '$(nvcc) $(CU_FLAGS)' > $@.new; \
	 if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
# Only these include CUDA's headers; ours come first, since nccl.h may lie among them.
range_obj := $(if $(nvcc),$B/obj/src/lib/base/range.o)
$(filter-out %.cu.o,$(CU_OBJS)) $(CUDA_TEST_OBJS) $(range_obj): CPPFLAGS += -isystem \
  $(cuda_root)/include
$B/obj/%.cu.o: %.cu $B/cu-flags
	@mkdir -p $(@D)
	$(call say,NVCC,$<)$(nvcc) -Isrc/lib -Isrc/tests $(CU_FLAGS) -MMD -MF $(@:.o=.d) \
	  -c -o $@ $< 2>$(@:.o=.ptxas) || { cat $(@:.o=.ptxas) >&2; exit 1; }
	@! grep -i warning $(@:.o=.ptxas) >&2

# nodelete: threads, and destructors of theirs, outlive a dlclose.
$(SO): $(LIB_OBJS) $(MAP) src/lib/lib.mk $B/flags
	$(call link,-shared -Wl$(comma)-soname$(comma)libnccl.so.2 -Wl$(comma)-z$(comma)nodelete \
	  $(if $(SAN),,-Wl$(comma)-z$(comma)defs) \
	  -Wl$(comma)--version-script=$(MAP) $(LIB_OBJS))
$(SONAME): $(SO)
	$(Q)ln -sf libnccl.so.$(VERSION) $@
$B/libnccl.so: $(SONAME)
	$(Q)ln -sf libnccl.so.2 $@
archive = $(call say,AR)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)
$(STATIC): $(LIB_OBJS) src/lib/lib.mk
	$(archive)
$(HARNESS_LIB): $(call objects,$(HARNESS_SRCS) $(HARNESS_CUDA)) src/tests/tests.mk $B/flags
	$(archive)
$(TEST_LIB): $(call objects,$(TEST_SRCS)) src/tests/tests.mk $B/flags
	$(archive)

shared = -L$B -lnccl
$(DRIVER_BINS): $B/%_perf$(NAME_SUFFIX): $B/obj/src/tests/%.o $(HARNESS_LIB) $(SONAME) $B/libnccl.so
	$(call link,$< $(HARNESS_LIB) $(shared) $(call rpath,self /../lib))
$(MPI_PLUGIN): $(MPI_PLUGIN_SRC) $B/flags
	$(call say,MPICC)OMPI_CC='$(CC)' MPICH_CC='$(CC)' $(mpicc) $(CPPFLAGS) $(BASE_CFLAGS) $(CFLAGS) \
	  -MMD -MP -MF $B/obj/chorus_mpi.d -shared -o $@ $<

.SECONDEXPANSION:
more = $(call objects,$($(notdir $1)_SRCS))
link_static = $(call link,$(filter %.o,$^) -Wl$(comma)--start-group $(TEST_LIB) $(HARNESS_LIB) \
  $(STATIC) -Wl$(comma)--end-group -rdynamic)
$(UNIT_BINS) $(BENCH_BINS): $B/tests/%: $B/obj/src/tests/unit/%.o $$(call more,$$*) $(TEST_LIB) \
    $(HARNESS_LIB) $(STATIC)
	@mkdir -p $(@D)
	$(link_static)
$(SIM_BINS): $B/tests/%: $B/obj/src/tests/sim/%.o $$(call more,$$*) $(TEST_LIB) $(HARNESS_LIB) \
    $(STATIC)
	@mkdir -p $(@D)
	$(link_static)
sim_sources = $(sort $(patsubst %,src/tests/%.c,$(filter %/$1,$(SIM_GPU_TESTS))) $(SIM_GPU_SRCS) \
  $(GPU_TEST_SRCS) $($1_SRCS))
$(SIM_GPU_BINS): $B/sim/%: $$(call objects,$$(call sim_sources,$$*)) $(TEST_LIB) $(HARNESS_LIB) \
    $(STATIC)
	@mkdir -p $(@D)
	$(link_static)
$(CUDA_TEST_BINS): $B/gpu/%: $B/obj/src/tests/gpu/%.o $$(call more,$$*) $(TEST_LIB) $(HARNESS_LIB) \
    $(STATIC)
	@mkdir -p $(@D)
	$(link_static)
$(CORE_BINS): $B/tests/%: $B/obj/src/tests/core/%.o $$(call more,$$*) $(TEST_LIB) $(HARNESS_LIB) \
    $(STATIC)
	@mkdir -p $(@D)
	$(link_static)
$(CHECK_BINS): $B/tests/%: $B/obj/src/tests/all/%.o $$(call more,$$*) $(TEST_LIB) $(HARNESS_LIB) \
    $(STATIC)
	@mkdir -p $(@D)
	$(link_static)
$(FAULT_BINS): $B/tests/%: $B/obj/src/tests/fault/%.o $$(call more,$$*) $(TEST_LIB) $(HARNESS_LIB) \
    $(STATIC)
	@mkdir -p $(@D)
	$(link_static)
$(GPU_TEST_BINS): $B/gpu/%: $B/obj/src/tests/gpu/%.o $$(call objects,$$(GPU_TEST_SRCS)) \
    $$(call more,$$*) $(TEST_LIB) $(HARNESS_LIB) $(STATIC)
	@mkdir -p $(@D)
	$(link_static)
$(GPU_BENCH_BINS): $B/gpu/%: $B/obj/src/tests/gpu/%.o $(SONAME) $B/libnccl.so
	@mkdir -p $(@D)
	$(call link,$< $(shared) $(call rpath,/..))
$(CONFORM_BINS): $B/tests/test_%: $B/obj/src/tests/conform/%.o $$(call more,$$*) $(TEST_LIB) \
    $(SONAME) $B/libnccl.so
	@mkdir -p $(@D)
	$(call link,$(filter %.o,$^) $(TEST_LIB) $(shared) $(call rpath,/..))
$(LOADER_BINS): $B/tests/%: $B/obj/src/tests/conform/%.o $$(call more,$$*)
	@mkdir -p $(@D)
	$(call link,$(filter %.o,$^))
mpi_source = $(filter %/$(notdir $1).c,$(MPI_TESTS) $(MPI_EXAMPLES:%=examples/%.c))
build_mpi  = $(call say,MPICC)OMPI_CC='$(CC)' MPICH_CC='$(CC)' $(mpicc) $(CPPFLAGS) $(BASE_CFLAGS) \
  $(CFLAGS) $(LDFLAGS) -MMD -MP -MF $B/obj/$(@F).d -o $@ $< $(shared) $(call rpath,/..) $(LIBS)
$(MPI_BINS): $$(call mpi_source,$$@) $B/flags $(SONAME) $B/libnccl.so
	@mkdir -p $(@D)
	$(build_mpi)
# Both sides of make bench share the timing loop; the side of MPI knows nothing of the library.
$B/bench/bench_chorus: $(call objects,$(BENCH_SRCS) $(BENCH_LOOP)) $(SONAME) $B/libnccl.so
	@mkdir -p $(@D)
	$(call link,$(filter %.o,$^) $(shared) $(call rpath,/..))
$B/bench/bench_mpi: $(BENCH_MPI) $(call objects,$(BENCH_LOOP)) $B/flags
	@mkdir -p $(@D)
	$(call say,MPICC)OMPI_CC='$(CC)' MPICH_CC='$(CC)' $(mpicc) $(CPPFLAGS) $(BASE_CFLAGS) $(CFLAGS) \
	  $(LDFLAGS) -MMD -MP -MF $B/obj/bench_mpi.d -o $@ $(filter %.c %.o,$^) $(LIBS)
# The runtime of CUDA is linked statically, the driver is looked up when the probes run.
$B/tests/probe: $(patsubst %.cu,$B/obj/%.cu.o,$(PROBE_SRCS))
	@mkdir -p $(@D)
	$(call say,LD)$(nvcc) -cudart static -o $@ $^ -ldl -lpthread
# Tests and benches of the kernels, with the library's objects and the runtime inside.
gpu_objects = $(patsubst %.cu,$B/obj/%.cu.o,$(GPU_SRCS) $($1_SRCS) src/tests/gpu/$1.cu)
$(GPU_BINS): $B/gpu/%: $$(call gpu_objects,$$*) $(STATIC)
	@mkdir -p $(@D)
	$(call say,LD)$(nvcc) -cudart static -o $@ $^ -ldl -lm -lpthread
preload_object = $(call objects,$(filter %/$(patsubst %.so,%.c,$(notdir $1)),$(PRELOADS)))
$(PRELOAD_BINS): $$(call preload_object,$$@) $(SONAME) $B/libnccl.so
	@mkdir -p $(@D)
	$(call link,-shared $< $(shared) $(call rpath,/..))
$(addprefix $B/examples/,$(EXAMPLES)): $B/examples/%: $B/obj/examples/%.o $(SONAME) $B/libnccl.so
	@mkdir -p $(@D)
	$(call link,$< $(shared) $(call rpath,/..))
$(addprefix $B/examples/,$(MPI_EXAMPLES)): $$(call mpi_source,$$@) $B/flags $(SONAME) $B/libnccl.so
	@mkdir -p $(@D)
	$(build_mpi)

# ---------------------------------------------------------------- run, test, keep tidy

# make run and make test build with all cores unless -j was given. Their set-up may install a
# compiler wrapper, so that what the machine has is looked up again by a second make.
jobs = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))
run:
	@scripts/setup
	@$(MAKE) $(jobs) all
	@scripts/run $B/all_reduce_perf$(NAME_SUFFIX)
test:
	$(if $(NAME_SUFFIX),$(error NAME_SUFFIX='$(NAME_SUFFIX)': the tests know the drivers without it))
	@scripts/setup
	@$(MAKE) $(jobs) tests
	@scripts/run-tests $B
# On a machine with a GPU.
gpu-test:
	@$(MAKE) $(jobs) tests gpu
	@scripts/run-tests $B --gpu -j 3
gpu-test-all:
	$(if $(SLICE),,$(error which part? SLICE=i/N))
	@$(MAKE) $(jobs) tests
	@GPU_SLICE='$(SLICE)' scripts/run-tests $B --gpu -j 6 --filter test_matrix --filter test_random
sanitize:
	@$(MAKE) $(jobs) tests
	@scripts/sanitize $B
bench-gpu:
	@$(MAKE) $(jobs) drivers $(GPU_BENCH_BINS)
	@scripts/gpu-bars $B
	@scripts/bench-gpu $(if $(filter 1,$(QUICK)),--quick) \
	  $(if $(NCCL_LIBRARY),--library '$(NCCL_LIBRARY)') $B
check-all: report $(CHECK_BINS)
	@scripts/check-all $B
plots:
	@scripts/plots
tidy: lib
	@scripts/tidy $B
check-layers:
	@scripts/check-layers
format:
	@git ls-files '*.c' '*.h' '*.cu' | xargs clang-format -i

# ---------------------------------------------------------------- install

# Man pages and bash completion are generated by the drivers from their table of options.
DRIVER_NAMES := $(notdir $(DRIVER_BINS))
MAN_PAGES    := $(patsubst %,$B/man/%.1,$(DRIVER_NAMES))
COMPLETIONS  := $(addprefix $B/completion/,$(DRIVER_NAMES))
D := $(DESTDIR)$(PREFIX)
INSTALLED := $(addprefix lib/,$(notdir $(SO) $(SONAME)) libnccl.so libnccl_static.a)
INSTALLED += $(addprefix lib/,pkgconfig/nccl.pc $(notdir $(MPI_PLUGIN)))
INSTALLED += $(addprefix include/,$(notdir $(LIB_HEADERS)))
INSTALLED += $(addprefix bin/,$(DRIVER_NAMES))
INSTALLED += $(addprefix share/man/man1/,$(notdir $(MAN_PAGES)))
INSTALLED += $(addprefix share/bash-completion/completions/,$(DRIVER_NAMES))

$(MAN_PAGES): $B/man/%.1: $B/%
	@mkdir -p $(@D)
	$(call say,MAN)$< --man > $@
$(COMPLETIONS): $B/completion/%: $B/%
	@mkdir -p $(@D)
	$(call say,GEN)$< --completion > $@
$(PC): src/lib/nccl.pc.in FORCE
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@VERSION@|$(VERSION)|g' -e 's|@LIBS@|$(LIBS)|' $< > $@

install: lib drivers $(MAN_PAGES) $(COMPLETIONS) $(PC)
	@mkdir -p $(sort $(dir $(addprefix $D/,$(INSTALLED))))
	$(Q)install -m 755 $(SO) $(MPI_PLUGIN) $D/lib
	$(Q)ln -sf libnccl.so.$(VERSION) $D/lib/libnccl.so.2
	$(Q)ln -sf libnccl.so.2 $D/lib/libnccl.so
	$(Q)install -m 644 $(STATIC) $D/lib
	$(Q)install -m 644 $(PC) $D/lib/pkgconfig
	$(Q)install -m 644 $(LIB_HEADERS) $D/include
	$(if $(DRIVER_BINS),$(Q)install -m 755 $(DRIVER_BINS) $D/bin)
	$(if $(DRIVER_BINS),$(Q)install -m 644 $(MAN_PAGES) $D/share/man/man1)
	$(if $(DRIVER_BINS),$(Q)install -m 644 $(COMPLETIONS) $D/share/bash-completion/completions)
	@echo "installed to $D"
uninstall:
	$(Q)rm -f $(addprefix $D/,$(INSTALLED))
	@echo "removed from $D"

# ---------------------------------------------------------------- help and housekeeping

define HELP
Usage: make [TARGET…] [VARIABLE=VALUE…]

Targets
  all           libnccl.so.2, the drivers and the examples (the default)
  run           sets up, builds, runs all_reduce_perf on 8 ranks, records and plots it
  test          sets up, builds, runs all tests; the last line counts them
  check-all     every algorithm, protocol, collective, type, operator on up to 64 ranks: 20 minutes
  bench         compares with Open MPI; QUICK=1 takes one minute instead of six
  lib drivers examples tests cuda          parts of the build
  gpu           tests and benches of CUDA parts, for a machine with a GPU: build/gpu/
  probes        questions to a GPU; src/tests/probe/run.sh asks them all
  gpu-test      on a GPU: all tests that need one; under 5 minutes, the last line counts them
  gpu-test-all  on a GPU: a part of the full product of types, operators, ranks, modes; SLICE=i/N
  sanitize      on a GPU: compute-sanitizer over a reduced matrix
  bench-gpu     on a GPU: the table of bars, then a comparison with NCCL_LIBRARY=PATH; QUICK=1
  tune          measures new rows of the cost model
  tidy          format, layers, sizes, exports, documented options
  check-layers  the layer rule alone            format   clang-format -i on all sources
  plots         draws plots/ from results/      dist     a source archive in dist/
  install       to PREFIX, below DESTDIR        uninstall
  clean         removes the build folder        help     this text
  report        says whether MPI and CUDA are on or off, and why

Variables
  CC=gcc AR=ar CFLAGS= LDFLAGS=   compiler, archiver and flags added to ours
  DEBUG=1        -O0 -g           SAN=address|undefined|thread|address,undefined   sanitizers
  FAULTS=1       fault points     COV=1   coverage     V=1   shows the commands
  BUILDDIR=DIR   default build, or build/<variant> with DEBUG, SAN, FAULTS or COV
  MPI=auto|0|1 MPI_HOME=DIR       mpicc of PATH or of DIR/bin
  CUDA=auto|0|1 CUDA_HOME=DIR     nvcc of PATH or of DIR/bin
  NVCC_GENCODE=  $(NVCC_GENCODE)
  SLICE=i/N      the i-th of N parts for gpu-test-all
  NCCL_LIBRARY=PATH               another libnccl.so.2 for bench-gpu
  NAME_SUFFIX=   added to the names of the drivers
  PREFIX=/usr/local DESTDIR=      where install goes
endef

help:
	@:$(info $(HELP))

clean:
	@if [ ! -e $B ]; then :; \
	 elif [ -e $B/.chorus-build ] || [ $(firstword $(subst /, ,$B)) = build ]; then rm -rf $B; \
	 else echo "make clean: $B was not made by this makefile; not removed" >&2; exit 1; fi

dist:
	@scripts/dist $(VERSION)

-include $(shell find $B/obj -name '*.d' 2>/dev/null)
