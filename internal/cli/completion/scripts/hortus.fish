# Completion of hortus for fish. Made by "hortus completion fish"; where it was
# installed by it, "hortus uninstall" removes it.
function __hortus_complete
    set -l words (commandline -opc)
    set -l cur (commandline -ct)
    for line in (command $words[1] __complete -- $words[2..-1] "$cur" 2>/dev/null)
        switch $line
            case ':files'
                __fish_complete_path "$cur"
            case ':dirs'
                __fish_complete_directories "$cur" ''
            case ':nospace'
            case '*'
                echo $line
        end
    end
end
complete -c hortus -f -a '(__hortus_complete)'
