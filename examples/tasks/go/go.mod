module example.org/lookup

go 1.21
