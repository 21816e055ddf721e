module kubexm.io/probe

go 1.24
