# bash completion for mtprof
_mtprof()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]}
    local rows="--sort --limit --by-shape --by-stack --by-overload --python-functions --as-torch --json --csv --output --help"
    local options
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "run trigger ps table stats export stacks memory steps cut diff recover check info --help --version" -- "$cur"))
        return
    fi
    case $prev in
    --sort | -s)
        COMPREPLY=($(compgen -W "self_cpu_time_total cpu_time_total cpu_time count device_time_total \
            self_device_time_total cpu_memory_usage self_cpu_memory_usage device_memory_usage flops" -- "$cur"))
        return ;;
    --metric | -m) COMPREPLY=($(compgen -W "self_cpu_time_total self_device_time_total" -- "$cur")); return ;;
    --process) COMPREPLY=($(compgen -W "main" -- "$cur")); return ;;
    --max-memory) COMPREPLY=($(compgen -W "1G 4G none" -- "$cur")); return ;;
    --time-unit) COMPREPLY=($(compgen -W "us ms s" -- "$cur")); return ;;
    esac
    case $verb in
    run) options="--output --shapes --memory --stacks --itt --no-itt --nvtx --no-nvtx --opencl --no-opencl --python --no-python \
        --torch --no-torch --malloc --no-malloc --stream --keep-newest --budget --delay --duration --steps --wait --help" ;;
    trigger) options="--seconds --shapes --memory --stacks --budget --output --help" ;;
    ps) options="--help" ;;
    table) options="$rows --top-level --time-unit --header --device --name-width --shapes-width --src-width" ;;
    stats) options="$rows" ;;
    export) options="--output --whole-us --no-args --level --help" ;;
    stacks) options="--metric --output --help" ;;
    memory) options="--device --output --json --limit --help" ;;
    steps) options="--json --csv --limit --output --help" ;;
    cut) options="--output --step --time --name --thread --help" ;;
    diff) options="--fail-over --by-shape --limit --json --normalize --max-drift --output --help" ;;
    recover) options="--output --help" ;;
    check) options="--json --output --help" ;;
    info) options="--help" ;;
    esac
    options="$options --process --max-memory"
    case $cur in
    -*) COMPREPLY=($(compgen -W "$options" -- "$cur")) ;;
    *) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur")) ;;
    esac
}
complete -F _mtprof mtprof
